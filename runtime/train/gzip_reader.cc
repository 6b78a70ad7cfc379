#include "runtime/train/gzip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr int64_t kChunkBytes = 1 << 16;  // read at once
constexpr int kGzipOnly = 16 + MAX_WBITS;

}  // namespace

absl::StatusOr<bool> IsGzip(const RandomAccessFile& file) {
  std::array<std::byte, 2> magic = {};
  if (file.size() < 2) return false;
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(magic)));
  return magic[0] == std::byte{0x1F} && magic[1] == std::byte{0x8B};
}

struct GzipReader::Stream {
  explicit Stream(const RandomAccessFile& from) : file(from), input(static_cast<size_t>(kChunkBytes)) {
    REPRISE_CHECK(inflateInit2(&zlib, kGzipOnly) == Z_OK) << "zlib cannot start";
  }
  ~Stream() { inflateEnd(&zlib); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int64_t offset() const { return next_read - zlib.avail_in; }  // of the next compressed byte

  absl::Status Refuse(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(file.path(), " ", what, " at byte ", offset(), "; copy or make it again"));
  }

  absl::Status Refill() {
    if (zlib.avail_in > 0 || next_read == file.size()) return absl::OkStatus();
    const int64_t bytes = std::min(kChunkBytes, file.size() - next_read);
    RETURN_IF_ERROR(file.ReadAt(next_read, absl::MakeSpan(input).first(static_cast<size_t>(bytes))));
    zlib.next_in = reinterpret_cast<Bytef*>(input.data());
    zlib.avail_in = static_cast<uInt>(bytes);
    next_read += bytes;
    return absl::OkStatus();
  }

  // Inflates until `zlib.avail_out` is used up or the data ends (`ended`).
  absl::Status Inflate() {
    while (zlib.avail_out > 0 && !ended) {
      RETURN_IF_ERROR(Refill());
      if (member_ended) {  // gzip files may stand one behind the other
        ended = zlib.avail_in == 0;
        if (ended) return absl::OkStatus();
        inflateReset(&zlib);
        member_ended = false;
      }
      if (zlib.avail_in == 0) return Refuse("ends in the middle of its compressed data,");
      const int result = inflate(&zlib, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        member_ended = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Refuse(absl::StrCat("is damaged (", zlib.msg == nullptr ? "not gzip" : zlib.msg, ")"));
      }
    }
    return absl::OkStatus();
  }

  const RandomAccessFile& file;
  std::vector<std::byte> input;
  z_stream zlib = {};
  int64_t next_read = 0;
  bool member_ended = false;
  bool ended = false;
};

GzipReader::GzipReader(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
GzipReader::~GzipReader() = default;
GzipReader::GzipReader(GzipReader&&) noexcept = default;
GzipReader& GzipReader::operator=(GzipReader&&) noexcept = default;

absl::StatusOr<GzipReader> GzipReader::Open(const RandomAccessFile& file) {
  return GzipReader(std::make_unique<Stream>(file));
}

int64_t GzipReader::MostBytes() const {
  constexpr int64_t kRatio = 1032;
  const int64_t size = stream_->file.size();
  return size > std::numeric_limits<int64_t>::max() / kRatio ? std::numeric_limits<int64_t>::max() : size * kRatio;
}

absl::Status GzipReader::Read(absl::Span<std::byte> out) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  while (!out.empty()) {
    const size_t piece = std::min(out.size(), kMostAtOnce);
    stream_->zlib.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_->zlib.avail_out = static_cast<uInt>(piece);
    RETURN_IF_ERROR(stream_->Inflate());
    const size_t missing = stream_->zlib.avail_out + out.size() - piece;
    if (stream_->ended) return stream_->Refuse(absl::StrCat("holds ", missing, " bytes too few: its data ends"));
    out.remove_prefix(piece);
  }
  return absl::OkStatus();
}

absl::Status GzipReader::CheckEnd() {
  Bytef more = 0;
  stream_->zlib.next_out = &more;
  stream_->zlib.avail_out = 1;
  RETURN_IF_ERROR(stream_->Inflate());
  if (stream_->zlib.avail_out == 0) return stream_->Refuse("holds more than its header says:");
  return absl::OkStatus();
}

}  // namespace reprise
