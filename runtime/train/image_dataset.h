// Labelled images as a model reads them: resized, one plane a channel, normalised.
//
//   ASSIGN_OR_RETURN(auto data, ImageDataset::Open(storage, {.path = "fashion-mnist/", .input = *model.images}));
//   ASSIGN_OR_RETURN(int64_t counted, data->ReadSequence(7, batch.Row(0, 1)));
//
// Data are idx files of grey images (idx_file.h) and of their labels, with "images" and "labels" in names that are
// otherwise equal ("idx3" and "idx1" too), each plain or gzip. A folder may hold one pair, or several of which one
// begins with `part` ("train", "t10k").
//
// An image of h x w is stretched to size x size by bilinear interpolation with half-pixel centres, as PyTorch's
// interpolate(mode="bilinear", align_corners=False) does it: pixel (y, x) is taken at ((y + 0.5) h / size - 0.5,
// (x + 0.5) w / size - 0.5), held within the image, from its four neighbours; no smoothing where it shrinks, nothing is
// rounded. Then every channel is (value * rescale_factor - mean) / deviation of that same grey image.
#ifndef REPRISE_RUNTIME_TRAIN_IMAGE_DATASET_H_
#define REPRISE_RUNTIME_TRAIN_IMAGE_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/block.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/idx_file.h"
#include "runtime/train/sequence_source.h"

namespace reprise {

// As in a Hugging Face preprocessor_config.json.
struct ImageNormalization {
  double rescale_factor = 1.0 / 255;
  std::vector<double> mean;       // by channel; empty: 0.5
  std::vector<double> deviation;  // likewise
};

// From `folder`/preprocessor_config.json, where there is one: image_mean, image_std (a number for each of `channels`),
// rescale_factor, do_rescale, do_normalize.
absl::StatusOr<ImageNormalization> ReadImageNormalization(Storage& storage, const std::string& folder,
                                                          int64_t channels);

struct ImageDatasetOptions {
  std::string path = "";  // a folder, or the file of images
  std::string part = "";  // of a folder that holds several
  ImageInput input;
  ImageNormalization normalization = {};
};

class ImageDataset : public SequenceSource {
 public:
  // DataLoss for files that are missing or wrong, for counts that differ, and for a label that is no class. Every label
  // is looked at.
  static absl::StatusOr<std::unique_ptr<ImageDataset>> Open(Storage& storage, const ImageDatasetOptions& options);

  const std::string& path() const override { return path_; }
  int64_t sequences() const override { return images_.shape()[0]; }
  std::string Contents() const override;
  std::string Mend() const override { return "a smaller --micro_batch"; }
  absl::StatusOr<std::string> Identity() const override;
  absl::StatusOr<int64_t> ReadSequence(int64_t sequence, const BatchData& row) const override;

 private:
  // Of one side: what each pixel is made of.
  struct Taps {
    std::vector<int64_t> first, second;
    std::vector<float> share;  // of the second
  };
  static Taps TapsOf(int64_t from, int64_t to);

  ImageDataset(IdxFile images, const ImageDatasetOptions& options);
  absl::Status ReadLabels(const IdxFile& labels);

  std::string path_;
  IdxFile images_;
  std::vector<std::byte> labels_;
  ImageInput input_;
  Taps rows_, columns_;
  std::vector<float> scale_, shift_;  // by channel
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_IMAGE_DATASET_H_
