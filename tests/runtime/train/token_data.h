// Bytes of token files, for tests.
//
//   storage.Put("a.bin", Llmc<uint16_t>(20240520, 1, {5, 6, 7}));
#ifndef REPRISE_TESTS_RUNTIME_TRAIN_TOKEN_DATA_H_
#define REPRISE_TESTS_RUNTIME_TRAIN_TOKEN_DATA_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace reprise::testing {

template <typename T>
std::string Words(const std::vector<T>& tokens) {
  std::string bytes(tokens.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  return bytes;
}

// llm.c's format; `count` in place of the true one if given.
template <typename T>
std::string Llmc(int32_t magic, int32_t version, const std::vector<T>& tokens, int64_t count = INT64_MIN) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(count == INT64_MIN ? static_cast<int64_t>(tokens.size()) : count);
  return Words(header) + Words(tokens);
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_RUNTIME_TRAIN_TOKEN_DATA_H_
