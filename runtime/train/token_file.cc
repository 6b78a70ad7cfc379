#include "runtime/train/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/snapshot/git_lfs.h"

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read as they stand");

constexpr int64_t kLlmcHeaderBytes = 256 * 4;
constexpr int32_t kLlmcMagic16 = 20240520;
constexpr int32_t kLlmcVersion16 = 1;
constexpr int32_t kLlmcMagic32 = 20240801;
constexpr int32_t kLlmcVersion32 = 7;
constexpr int32_t kLlmcMagicEvaluation = 20240522;  // multiple-choice questions, not a stream of tokens
constexpr int64_t kMostUint16 = 65536;
constexpr int64_t kChunkBytes = 16384;  // read at once, on the stack

struct LlmcHeader {
  int32_t magic = 0;
  int32_t version = 0;
  int32_t tokens = 0;
};

// The first three numbers, as far as the file has them.
absl::StatusOr<LlmcHeader> ReadLlmcHeader(const RandomAccessFile& file) {
  LlmcHeader header;
  const auto bytes = static_cast<size_t>(std::min<int64_t>(file.size(), sizeof(header)));
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(&header), bytes)));
  return header;
}

bool IsLlmcMagic(int32_t magic) {
  return magic == kLlmcMagic16 || magic == kLlmcMagic32 || magic == kLlmcMagicEvaluation;
}

// Token `i` of `bytes`, which hold tokens of `width` bytes. At most 32 bits, so it fits.
int64_t TokenAt(const std::byte* bytes, size_t i, int64_t width) {
  uint32_t token = 0;
  std::memcpy(&token, bytes + i * static_cast<size_t>(width), static_cast<size_t>(width));
  return int64_t{token};
}

}  // namespace

absl::StatusOr<TokenFormat> ParseTokenFormat(absl::string_view name) {
  for (const TokenFormat format : {TokenFormat::kAuto, TokenFormat::kText, TokenFormat::kU16, TokenFormat::kLlmc}) {
    if (name == TokenFormatName(format)) return format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--data_format is '", name, "'; for tokens it must be auto, text, u16 or llmc"));
}

const char* TokenFormatName(TokenFormat format) {
  switch (format) {
    case TokenFormat::kAuto:
      return "auto";
    case TokenFormat::kText:
      return "text";
    case TokenFormat::kU16:
      return "u16";
    case TokenFormat::kLlmc:
      return "llmc";
  }
  return "unknown";
}

absl::StatusOr<TokenFile> TokenFile::Open(Storage& storage, const std::string& path, TokenFormat format,
                                          int64_t vocabulary) {
  REPRISE_CHECK(vocabulary > 0) << "vocabulary " << vocabulary;
  TokenFile result;
  ASSIGN_OR_RETURN(result.file_, storage.Open(path));
  RETURN_IF_ERROR(RefuseGitLfsPointer(*result.file_));
  result.vocabulary_ = vocabulary;
  result.format_ = format;
  RETURN_IF_ERROR(result.ReadHeader());
  RETURN_IF_ERROR(result.CheckSize());
  return result;
}

// Settles format, width of a token, and how many there are to be.
absl::Status TokenFile::ReadHeader() {
  const auto refuse = [&](absl::string_view what) { return absl::DataLossError(absl::StrCat(path(), " ", what)); };
  if (file_->size() == 0) return refuse("is empty; give a file with tokens");
  ASSIGN_OR_RETURN(const LlmcHeader header, ReadLlmcHeader(*file_));
  if (format_ == TokenFormat::kAuto) {
    format_ = IsLlmcMagic(header.magic)        ? TokenFormat::kLlmc
              : absl::EndsWith(path(), ".bin") ? TokenFormat::kU16
                                               : TokenFormat::kText;
  }
  header_bytes_ = format_ == TokenFormat::kLlmc ? kLlmcHeaderBytes : 0;
  if (format_ != TokenFormat::kLlmc) {
    token_bytes_ = format_ == TokenFormat::kText ? 1 : 2;
    const bool is_llmc = (header.magic == kLlmcMagic16 && header.version == kLlmcVersion16) ||
                         (header.magic == kLlmcMagic32 && header.version == kLlmcVersion32);
    if (format_ == TokenFormat::kU16 && is_llmc) {
      return refuse("begins with llm.c's header, which is not data; use --data_format=llmc");
    }
    tokens_ = file_->size() / token_bytes_;
    return absl::OkStatus();
  }
  if (header.magic == kLlmcMagicEvaluation) {
    return refuse("is an llm.c evaluation file of multiple-choice questions; give one of tokens");
  }
  if (!IsLlmcMagic(header.magic)) {
    return refuse(absl::StrCat("begins with ", header.magic, " where llm.c's token files have ", kLlmcMagic16, " or ",
                               kLlmcMagic32, "; check --data_format or make the file again"));
  }
  token_bytes_ = header.magic == kLlmcMagic16 ? 2 : 4;
  const int32_t version = header.magic == kLlmcMagic16 ? kLlmcVersion16 : kLlmcVersion32;
  if (header.version != version) {
    return refuse(absl::StrCat("is of llm.c's version ", header.version, " where ", version,
                               " is known for its magic; make the file again"));
  }
  if (header.tokens <= 0) {
    return refuse(absl::StrCat("says that it holds ", header.tokens, " tokens; make the file again"));
  }
  tokens_ = header.tokens;
  return absl::OkStatus();
}

absl::Status TokenFile::CheckSize() {
  if (token_bytes_ == 2 && vocabulary_ > kMostUint16) {
    return absl::DataLossError(absl::StrCat(path(), " keeps tokens in 16 bits, where ids of a vocabulary of ",
                                            vocabulary_, " don't fit; make it again in llm.c's 32-bit format"));
  }
  const int64_t expected = header_bytes_ + tokens_ * token_bytes_;
  if (file_->size() == expected) return absl::OkStatus();
  if (format_ == TokenFormat::kU16) {
    return absl::DataLossError(absl::StrCat(path(), " holds ", file_->size(), " bytes, an odd number, where a token ",
                                            "takes two; use --data_format=text if it is text, or make it again"));
  }
  return absl::DataLossError(absl::StrCat(path(), " holds ", file_->size(), " bytes, but its header says ", tokens_,
                                          " tokens, which is ", expected, " bytes; make or copy it again"));
}

bool TokenFile::NeedsCheck() const { return token_bytes_ == 4 || vocabulary_ < int64_t{1} << (8 * token_bytes_); }

absl::Status TokenFile::Read(int64_t first, absl::Span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  REPRISE_CHECK(first >= 0 && first <= tokens_ && count <= tokens_ - first)
      << path() << ": tokens " << first << " + " << count << " of " << tokens_;
  std::array<std::byte, kChunkBytes> chunk;
  int64_t offset = header_bytes_ + first * token_bytes_;
  while (!out.empty()) {
    const size_t piece = std::min(out.size(), static_cast<size_t>(kChunkBytes / token_bytes_));
    const size_t bytes = piece * static_cast<size_t>(token_bytes_);
    RETURN_IF_ERROR(file_->ReadAt(offset, absl::MakeSpan(chunk.data(), bytes)));
    for (size_t i = 0; i < piece; ++i) {
      const int64_t token = TokenAt(chunk.data(), i, token_bytes_);
      if (token >= vocabulary_) {
        return absl::DataLossError(absl::StrCat(
            path(), " holds token ", token, " at byte ", offset + static_cast<int64_t>(i) * token_bytes_,
            ", but the vocabulary is ", vocabulary_, "; check the tokenizer, --data_format and vocab_size"));
      }
      out[i] = static_cast<int32_t>(token);
    }
    out.remove_prefix(piece);
    offset += static_cast<int64_t>(bytes);
  }
  return absl::OkStatus();
}

}  // namespace reprise
