// One file of token ids, in one of the formats that people have:
//
//   text  bytes as tokens, vocabulary 256
//   u16   headerless little-endian uint16 (nanoGPT)
//   llmc  llm.c: 256 int32 of header (magic, version, count of tokens, zeros), then uint16 (magic 20240520, version 1)
//         or uint32 (magic 20240801, version 7)
//   auto  by content: llmc where its magic stands first, else u16 for a name that ends in .bin, else text
//
//   ASSIGN_OR_RETURN(TokenFile file, TokenFile::Open(storage, "train.bin", TokenFormat::kAuto, /*vocabulary=*/50257));
//   RETURN_IF_ERROR(file.Read(first, absl::MakeSpan(tokens)));
//
// A file whose size, header or ids are wrong is a DataLoss error with file, byte offset and mend. Reading is safe from
// several threads, takes no memory, and never goes past the end, also when the file is cut while it is open.
#ifndef REPRISE_RUNTIME_TRAIN_TOKEN_FILE_H_
#define REPRISE_RUNTIME_TRAIN_TOKEN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

enum class TokenFormat : uint8_t { kAuto, kText, kU16, kLlmc };

// "auto", "text", "u16", "llmc"; InvalidArgument for anything else.
absl::StatusOr<TokenFormat> ParseTokenFormat(absl::string_view name);
const char* TokenFormatName(TokenFormat format);

class TokenFile {
 public:
  // `vocabulary`: ids must be below it. Checks header and size, not yet the ids.
  static absl::StatusOr<TokenFile> Open(Storage& storage, const std::string& path, TokenFormat format,
                                        int64_t vocabulary);

  const std::string& path() const { return file_->path(); }
  TokenFormat format() const { return format_; }  // never kAuto
  int64_t token_bytes() const { return token_bytes_; }
  int64_t tokens() const { return tokens_; }

  // Tokens [first, first + out.size()); each is checked against the vocabulary.
  absl::Status Read(int64_t first, absl::Span<int32_t> out) const;

  // Whether a token could be outside the vocabulary at all: bytes can't where it is 256.
  bool NeedsCheck() const;

 private:
  TokenFile() = default;
  absl::Status ReadHeader();
  absl::Status CheckSize();

  std::unique_ptr<RandomAccessFile> file_;
  TokenFormat format_ = TokenFormat::kText;
  int64_t vocabulary_ = 0;
  int64_t header_bytes_ = 0;
  int64_t token_bytes_ = 1;
  int64_t tokens_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_TOKEN_FILE_H_
