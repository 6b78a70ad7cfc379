// The JSON header of a safetensors file, read and written. Internal to this folder; use safetensors.h.
//
//   ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(text, path, data_bytes));
#ifndef REPRISE_RUNTIME_SNAPSHOT_SAFETENSORS_HEADER_H_
#define REPRISE_RUNTIME_SNAPSHOT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/snapshot/safetensors.h"

namespace reprise {

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // sorted by name; file_offset is from the first byte after the header
  std::map<std::string, std::string> metadata;
};

// `text` is the header, `data_bytes` what the file holds after it. Holds each tensor's numbers against each other and
// against the file. DataLoss, naming `path`, if anything is amiss.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, const std::string& path,
                                                         int64_t data_bytes);

// Fills elements and bytes from type and shape. False: a negative dimension, or more than 2^63 - 1 bytes.
bool SizeTensor(StoredTensor* tensor);

// The header's text for tensors in file order, padded with blanks to a multiple of 8 bytes.
std::string FormatSafetensorsHeader(const std::vector<StoredTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_SAFETENSORS_HEADER_H_
