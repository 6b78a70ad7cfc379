#include "runtime/train/image_dataset.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/snapshot/read_model_config.h"

namespace reprise {
namespace {

constexpr int64_t kMostSide = 1 << 14;  // pixels
constexpr char kImages[] = "images";
constexpr char kGzipEnding[] = ".gz";

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

absl::StatusOr<std::string> FindImages(Storage& storage, const ImageDatasetOptions& options) {
  if (!storage.IsFolder(options.path)) return options.path;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, storage.List(options.path));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, ".") && absl::StrContains(name, kImages)) found.push_back(name);
  }
  if (found.size() > 1) {
    std::vector<std::string> of_part;
    for (const std::string& name : found) {
      if (absl::StartsWith(name, options.part)) of_part.push_back(name);
    }
    found = std::move(of_part);
  }
  if (found.size() == 1) return JoinPath(options.path, found[0]);
  return absl::DataLossError(absl::StrCat(options.path, " holds ", found.size(),
                                          " files of images that could be meant (\"images\" in the name, \"",
                                          options.part, "\" at its beginning); name one file"));
}

// Beside the images, plain or gzip whatever they are.
absl::StatusOr<std::string> FindLabels(Storage& storage, const std::string& images) {
  const std::string name = BaseName(images);
  std::string labels = absl::StrReplaceAll(name, {{kImages, "labels"}, {"idx3", "idx1"}});
  if (!storage.Exists(images)) {
    return absl::DataLossError(absl::StrCat(images, " is not there; check the path"));
  }
  if (labels == name) {
    return absl::DataLossError(absl::StrCat(images,
                                            " has no \"images\" in its name, by which its labels are found; "
                                            "name them like train-images-idx3-ubyte"));
  }
  const std::string first = absl::StrCat(images.substr(0, images.size() - name.size()), labels);
  const std::string other =
      absl::EndsWith(first, kGzipEnding) ? first.substr(0, first.size() - 3) : first + kGzipEnding;
  return !storage.Exists(first) && storage.Exists(other) ? other : first;
}

// A list of one number for each channel, or one number for all.
absl::StatusOr<std::vector<double>> ReadPerChannel(ModelConfig& config, const std::string& key, double minimum,
                                                   int64_t channels) {
  std::vector<double> values(static_cast<size_t>(channels), 0.5);
  const bool list = config.Has(absl::StrCat(key, ".0"));
  if (list && config.Has(absl::StrCat(key, ".", channels))) {
    return absl::DataLossError(absl::StrCat(key, " has more numbers in ", config.source(), " than the model's ",
                                            channels, " channels; give one for each"));
  }
  for (int64_t channel = 0; channel < channels; ++channel) {
    const std::string place = list ? absl::StrCat(key, ".", channel) : key;
    if (list && !config.Has(place)) {
      return absl::DataLossError(absl::StrCat(key, " has fewer numbers in ", config.source(), " than the model's ",
                                              channels, " channels; give one for each"));
    }
    ASSIGN_OR_RETURN(values[static_cast<size_t>(channel)], config.Number(place, 0.5, minimum, 1e6));
  }
  return values;
}

}  // namespace

absl::StatusOr<ImageNormalization> ReadImageNormalization(Storage& storage, const std::string& folder,
                                                          int64_t channels) {
  ImageNormalization result;
  const std::string path = JoinPath(folder, "preprocessor_config.json");
  if (folder.empty() || !storage.Exists(path)) return result;
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(storage, path));
  ASSIGN_OR_RETURN(const bool rescales, config.Flag("do_rescale", true));
  ASSIGN_OR_RETURN(result.rescale_factor, config.Number("rescale_factor", result.rescale_factor, 1e-9, 1e9));
  if (!rescales) result.rescale_factor = 1;
  ASSIGN_OR_RETURN(const bool normalizes, config.Flag("do_normalize", true));
  ASSIGN_OR_RETURN(result.mean, ReadPerChannel(config, "image_mean", -1e6, channels));
  ASSIGN_OR_RETURN(result.deviation, ReadPerChannel(config, "image_std", 1e-9, channels));
  if (!normalizes) {
    result.mean.assign(static_cast<size_t>(channels), 0);
    result.deviation.assign(static_cast<size_t>(channels), 1);
  }
  return result;
}

absl::StatusOr<std::unique_ptr<ImageDataset>> ImageDataset::Open(Storage& storage, const ImageDatasetOptions& options) {
  ASSIGN_OR_RETURN(const std::string images_path, FindImages(storage, options));
  ASSIGN_OR_RETURN(const std::string labels_path, FindLabels(storage, images_path));
  ASSIGN_OR_RETURN(IdxFile images, IdxFile::Open(storage, images_path, 3));
  ASSIGN_OR_RETURN(const IdxFile labels, IdxFile::Open(storage, labels_path, 1));
  const std::vector<int64_t>& shape = images.shape();
  if (shape[1] > kMostSide || shape[2] > kMostSide) {
    return absl::DataLossError(absl::StrCat(images_path, " says at byte 8 that its images are of ", shape[1], " x ",
                                            shape[2], " pixels, where a side can have ", kMostSide));
  }
  if (labels.shape()[0] != shape[0]) {
    return absl::DataLossError(absl::StrCat(labels_path, " says at byte 4 that it holds ", labels.shape()[0],
                                            " labels, but ", images_path, " holds ", shape[0],
                                            " images; give those that belong together"));
  }
  std::unique_ptr<ImageDataset> data(new ImageDataset(std::move(images), options));
  RETURN_IF_ERROR(data->ReadLabels(labels));
  return data;
}

ImageDataset::ImageDataset(IdxFile images, const ImageDatasetOptions& options)
    : path_(options.path),
      images_(std::move(images)),
      input_(options.input),
      rows_(TapsOf(images_.shape()[1], input_.size)),
      columns_(TapsOf(images_.shape()[2], input_.size)) {
  const ImageNormalization& n = options.normalization;
  for (size_t c = 0; c < static_cast<size_t>(input_.channels); ++c) {
    const double mean = n.mean.empty() ? 0.5 : n.mean[c];
    const double deviation = n.deviation.empty() ? 0.5 : n.deviation[c];
    scale_.push_back(static_cast<float>(n.rescale_factor / deviation));
    shift_.push_back(static_cast<float>(-mean / deviation));
  }
}

absl::Status ImageDataset::ReadLabels(const IdxFile& labels) {
  labels_.resize(static_cast<size_t>(labels.elements()));
  RETURN_IF_ERROR(labels.Read(0, absl::MakeSpan(labels_)));
  const auto wrong = std::find_if(labels_.begin(), labels_.end(),
                                  [&](std::byte label) { return std::to_integer<int64_t>(label) >= input_.classes; });
  if (wrong == labels_.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(labels.path(), " holds label ", std::to_integer<int>(*wrong), " at byte ",
                                          labels.header_bytes() + (wrong - labels_.begin()), ", but the model has ",
                                          input_.classes, " classes; check the file and num_labels"));
}

ImageDataset::Taps ImageDataset::TapsOf(int64_t from, int64_t to) {
  Taps taps;
  for (int64_t i = 0; i < to; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double held = std::clamp(place, 0.0, static_cast<double>(from - 1));
    const auto first = static_cast<int64_t>(held);
    taps.first.push_back(first);
    taps.second.push_back(std::min(first + 1, from - 1));
    taps.share.push_back(static_cast<float>(held - static_cast<double>(first)));
  }
  return taps;
}

std::string ImageDataset::Contents() const {
  return absl::StrCat(sequences(), " images of ", images_.shape()[1], " x ", images_.shape()[2]);
}

absl::StatusOr<std::string> ImageDataset::Identity() const {
  const int64_t image = images_.shape()[1] * images_.shape()[2];
  std::vector<std::byte> sample(static_cast<size_t>(2 * image));
  RETURN_IF_ERROR(images_.Read(0, absl::MakeSpan(sample).first(static_cast<size_t>(image))));
  RETURN_IF_ERROR(images_.Read(images_.elements() - image, absl::MakeSpan(sample).last(static_cast<size_t>(image))));
  const uint64_t check =
      XXH3_64bits_withSeed(sample.data(), sample.size(), XXH3_64bits(labels_.data(), labels_.size()));
  return absl::StrCat(Contents(), ", check ", absl::Hex(check, absl::kZeroPad16));
}

absl::StatusOr<int64_t> ImageDataset::ReadSequence(int64_t sequence, const BatchData& row) const {
  REPRISE_CHECK(sequence >= 0 && sequence < sequences()) << path_ << ": image " << sequence << " of " << sequences();
  const absl::Span<float> pixels = DataAs<float>(row, DataKind::kPixels);
  const absl::Span<int32_t> label = DataAs<int32_t>(row, DataKind::kLabels);
  const int64_t plane = input_.size * input_.size;
  REPRISE_CHECK(static_cast<int64_t>(pixels.size()) == input_.channels * plane && label.size() == 1)
      << "an image of " << input_.channels << " x " << input_.size << " x " << input_.size << " does not fit its place";
  label[0] = std::to_integer<int32_t>(labels_[static_cast<size_t>(sequence)]);
  const int64_t width = images_.shape()[2];
  std::vector<std::byte> image(static_cast<size_t>(images_.shape()[1] * width));
  RETURN_IF_ERROR(images_.Read(sequence * static_cast<int64_t>(image.size()), absl::MakeSpan(image)));
  const auto value = [&](int64_t y, int64_t x) {
    return static_cast<float>(std::to_integer<int>(image[static_cast<size_t>(y * width + x)]));
  };
  for (int64_t y = 0, i = 0; y < input_.size; ++y) {
    const auto v = static_cast<size_t>(y);
    for (int64_t x = 0; x < input_.size; ++x, ++i) {
      const auto u = static_cast<size_t>(x);
      const auto across = [&](int64_t from) {
        const float left = value(from, columns_.first[u]);
        return left + columns_.share[u] * (value(from, columns_.second[u]) - left);
      };
      const float above = across(rows_.first[v]);
      const float grey = above + rows_.share[v] * (across(rows_.second[v]) - above);
      for (size_t c = 0; c < scale_.size(); ++c) {
        pixels[c * static_cast<size_t>(plane) + static_cast<size_t>(i)] = grey * scale_[c] + shift_[c];
      }
    }
  }
  return 1;
}

}  // namespace reprise
