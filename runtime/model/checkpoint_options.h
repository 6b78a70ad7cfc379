// How the parameters of a model are called in a Hugging Face folder, beside their own names. Part of the public API.
#ifndef REPRISE_RUNTIME_MODEL_CHECKPOINT_OPTIONS_H_
#define REPRISE_RUNTIME_MODEL_CHECKPOINT_OPTIONS_H_

#include <map>
#include <set>
#include <string>

namespace reprise {

struct CheckpointOptions {
  // A name is found as it is, with the prefix, or without it: folders saved from the bare model leave the prefix out.
  std::string prefix = "transformer.";
  // Other names of one weight, {"lm_head.weight", "transformer.wte.weight"} where the head is tied: the first may stand
  // in the file beside the second (it must hold the same, and is not read), or in its place (it is read).
  std::map<std::string, std::string> tied = {};
  // Tensors that may stand in the file and that the model has no use for: nothing is said of them.
  std::set<std::string> unused = {};
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_MODEL_CHECKPOINT_OPTIONS_H_
