// idx files and gzip as bytes, for tests of image data.
#ifndef REPRISE_TESTS_RUNTIME_TRAIN_IDX_DATA_H_
#define REPRISE_TESTS_RUNTIME_TRAIN_IDX_DATA_H_

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::testing {

inline void AppendBigEndian(uint32_t value, std::string* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes->push_back(static_cast<char>(value >> shift & 0xFF));
}

// Header of the sizes given, then `elements`, however many.
inline std::string Idx(const std::vector<uint32_t>& sizes, const std::string& elements) {
  std::string bytes;
  AppendBigEndian(0x0800 | static_cast<uint32_t>(sizes.size()), &bytes);
  for (const uint32_t size : sizes) AppendBigEndian(size, &bytes);
  return bytes + elements;
}

inline std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_RUNTIME_TRAIN_IDX_DATA_H_
