#include "runtime/train/dataset.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/train/documents.h"

namespace reprise {
namespace {

constexpr int64_t kVerifyTokens = 1 << 18;  // at once
constexpr int64_t kIdentityTokens = 4096;   // at each end of a file

absl::StatusOr<std::vector<std::string>> FilesOf(Storage& storage, const std::string& path) {
  if (!storage.IsFolder(path)) return std::vector<std::string>{path};
  ASSIGN_OR_RETURN(const std::vector<std::string> names, storage.List(path));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::string file = JoinPath(path, name);
    if (!absl::StartsWith(name, ".") && !storage.IsFolder(file)) files.push_back(std::move(file));
  }
  if (files.empty()) return absl::DataLossError(absl::StrCat(path, " holds no files; give a folder with data"));
  return files;
}

// Part `part` of `parts` of [0, total): where it begins. No overflow for any int64 total.
int64_t PartBegin(int64_t total, int64_t part, int64_t parts) {
  return total / parts * part + std::min(part, total % parts);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(Storage& storage, const DatasetOptions& options) {
  REPRISE_CHECK(options.sequence_length > 0) << "sequence length " << options.sequence_length;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOf(storage, options.path));
  std::unique_ptr<Dataset> data(new Dataset);
  data->path_ = options.path;
  data->sequence_length_ = options.sequence_length;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(TokenFile file, TokenFile::Open(storage, path, options.format, options.vocabulary));
    if (!data->files_.empty() && file.format() != data->format()) {
      return absl::DataLossError(absl::StrCat(path, " looks like ", TokenFormatName(file.format()), ", but ",
                                              data->files_.front().path(), " like ", TokenFormatName(data->format()),
                                              "; keep one format in a folder, or say which with --data_format"));
    }
    data->tokens_ += file.tokens();
    data->windows_ += (file.tokens() - 1) / options.sequence_length;
    data->window_ends_.push_back(data->windows_);
    data->files_.push_back(std::move(file));
  }
  data->document_separator_ = options.document_separator;
  if (!options.labels.empty()) RETURN_IF_ERROR(data->OpenLabels(storage, options));
  if (options.verify) RETURN_IF_ERROR(data->Verify(options));
  return data;
}

absl::Status Dataset::OpenLabels(Storage& storage, const DatasetOptions& options) {
  const bool folder = storage.IsFolder(options.path);
  if (folder != storage.IsFolder(options.labels)) {
    return absl::DataLossError(absl::StrCat(options.labels, " must be a ", folder ? "folder" : "file", " as ",
                                            options.path, " is, with the labels of its tokens"));
  }
  for (const TokenFile& file : files_) {
    const std::string name = file.path().substr(file.path().rfind('/') + 1);
    const std::string path = folder ? JoinPath(options.labels, name) : options.labels;
    ASSIGN_OR_RETURN(LabelFile labels, LabelFile::Open(storage, path, file.tokens(), options.vocabulary));
    label_files_.push_back(std::move(labels));
  }
  return absl::OkStatus();
}

absl::Status Dataset::Verify(const DatasetOptions& options) const {
  std::vector<int32_t> scratch;
  int64_t total = 0;
  const auto needs_check = [&](const TokenFile& file) { return file.NeedsCheck() || !label_files_.empty(); };
  for (const TokenFile& file : files_) total += needs_check(file) ? file.tokens() : 0;
  const int64_t begin = PartBegin(total, options.verify_part, options.verify_parts);
  const int64_t end = PartBegin(total, options.verify_part + 1, options.verify_parts);
  int64_t file_begin = 0;  // in the numbering of all tokens that need a check
  for (size_t f = 0; f < files_.size(); ++f) {
    const TokenFile& file = files_[f];
    if (!needs_check(file)) continue;
    const int64_t last = std::min(end - file_begin, file.tokens());
    for (int64_t first = std::max<int64_t>(begin - file_begin, 0); first < last; first += kVerifyTokens) {
      scratch.resize(static_cast<size_t>(std::min(kVerifyTokens, last - first)));
      RETURN_IF_ERROR(file.Read(first, absl::MakeSpan(scratch)));
      if (!label_files_.empty()) RETURN_IF_ERROR(label_files_[f].Apply(first, absl::MakeSpan(scratch)));
      if (options.progress) {
        options.progress(file_begin + first + static_cast<int64_t>(scratch.size()) - begin, end - begin);
      }
    }
    file_begin += file.tokens();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Dataset::Identity() const {
  std::vector<int32_t> sample;
  uint64_t check = 0;
  for (const TokenFile& file : files_) {
    const int64_t count = std::min(file.tokens(), kIdentityTokens);
    sample.resize(static_cast<size_t>(2 * count));
    RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(sample).first(static_cast<size_t>(count))));
    RETURN_IF_ERROR(file.Read(file.tokens() - count, absl::MakeSpan(sample).last(static_cast<size_t>(count))));
    check = XXH3_64bits_withSeed(sample.data(), sample.size() * sizeof(int32_t),
                                 check + static_cast<uint64_t>(file.tokens() * file.token_bytes()));
  }
  return absl::StrCat(tokens_, " tokens, check ", absl::Hex(check, absl::kZeroPad16));
}

std::string Dataset::Contents() const {
  return absl::StrCat(tokens_, " tokens, which is ", windows_, " windows of ", sequence_length_);
}

absl::StatusOr<int64_t> Dataset::ReadSequence(int64_t sequence, const BatchData& row) const {
  const auto tokens = DataAs<int32_t>(row, DataKind::kTokens);
  const auto labels = DataAs<int32_t>(row, DataKind::kLabels);
  RETURN_IF_ERROR(ReadWindow(sequence, tokens, labels));
  if (document_separator_ >= 0) {
    MarkDocuments(static_cast<int32_t>(document_separator_), tokens, labels, DataAs<int32_t>(row, DataKind::kPositions),
                  DataAs<int32_t>(row, DataKind::kDocumentStarts));
  }
  return static_cast<int64_t>(labels.size()) - std::count(labels.begin(), labels.end(), kIgnoredLabel);
}

absl::Status Dataset::ReadWindow(int64_t window, absl::Span<int32_t> tokens, absl::Span<int32_t> labels) const {
  REPRISE_CHECK(window >= 0 && window < windows_) << path_ << ": window " << window << " of " << windows_;
  const auto length = static_cast<size_t>(sequence_length_);
  REPRISE_CHECK(tokens.size() == length && labels.size() == length) << "a window is of " << length << " tokens";
  const auto index = std::upper_bound(window_ends_.begin(), window_ends_.end(), window) - window_ends_.begin();
  const int64_t before = index == 0 ? 0 : window_ends_[static_cast<size_t>(index) - 1];
  const TokenFile& file = files_[static_cast<size_t>(index)];
  const int64_t first = (window - before) * sequence_length_;
  RETURN_IF_ERROR(file.Read(first, tokens));
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
  RETURN_IF_ERROR(file.Read(first + sequence_length_, labels.subspan(length - 1)));
  return label_files_.empty() ? absl::OkStatus() : label_files_[static_cast<size_t>(index)].Apply(first + 1, labels);
}

}  // namespace reprise
