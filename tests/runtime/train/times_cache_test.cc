#include "runtime/train/times_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "models/gpt2.h"
#include "tests/tools/paths.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

const Gpt2Config kSmall = {.vocab_size = 41, .n_positions = 12, .n_embd = 24, .n_layer = 2, .n_head = 3};
constexpr char kKey[] = "a machine; a program\n";

MachineTimes Times() {
  MachineTimes times;
  times.kernel_ns = {{"linear f32[2, 3]", 12}, {"gelu", 7}};
  times.transfer[static_cast<size_t>(Stream::kOffload)] = {.latency_ns = 5, .picoseconds_per_byte = 100};
  times.scalars_ns = 3;
  return times;
}

class TimesCacheTest : public ::testing::Test {
 protected:
  std::string OnlyFile() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("cache"))) found = entry.path();
    return found;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::TemporaryFolder folder_;
  const TimesCache cache_{PosixStorage(), folder_.File("cache")};
};

TEST_F(TimesCacheTest, GivesBackWhatWasSaved) {
  EXPECT_FALSE(cache_.Load(kKey).has_value());
  ASSERT_TRUE(cache_.Save(kKey, Times()).ok());
  const auto loaded = cache_.Load(kKey);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->ToText(), Times().ToText());
  EXPECT_FALSE(cache_.Load("another machine; a program\n").has_value());
}

TEST_F(TimesCacheTest, AFileThatIsNotWholeCountsAsNone) {
  ASSERT_TRUE(cache_.Save(kKey, Times()).ok());
  const std::string path = OnlyFile();
  const std::string whole = Contents(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    EXPECT_FALSE(cache_.Load(kKey).has_value()) << "cut to " << size << " bytes of " << whole.size();
  }
  // Of another key with the same hash, as far as the cache can tell.
  std::string other = whole;
  other.replace(other.find("a machine"), 9, "b machine");
  std::ofstream(path, std::ios::binary) << other;
  EXPECT_FALSE(cache_.Load(kKey).has_value());
  std::ofstream(path, std::ios::binary) << whole;
  EXPECT_TRUE(cache_.Load(kKey).has_value());
}

TEST_F(TimesCacheTest, WithoutAFolderNothingIsKept) {
  const TimesCache none(PosixStorage(), "");
  EXPECT_TRUE(none.Save(kKey, Times()).ok());
  EXPECT_FALSE(none.Load(kKey).has_value());
  std::ofstream(folder_.File("file")) << "not a folder";
  const TimesCache blocked(PosixStorage(), folder_.File("file/below"));
  EXPECT_FALSE(blocked.Save(kKey, Times()).ok());
  EXPECT_FALSE(blocked.Load(kKey).has_value());
}

// What was measured once is not measured again: two measurements never give the same numbers throughout.
TEST_F(TimesCacheTest, MeasuresOncePerKey) {
  JobOptions options;
  options.micro_batch = 2;
  options.sequence_length = 12;
  const auto measure = [&](const TimesCache& cache) {
    std::string text;
    testing::RunRanks(2, [&](Communicator& communicator) {
      const auto times = CachedMachineTimes(cache, Gpt2(kSmall), options, {}, 2, communicator);
      ASSERT_TRUE(times.ok()) << times.status();
      if (communicator.rank() == 1) text = times->ToText();
    });
    return text;
  };
  const std::string first = measure(cache_);
  EXPECT_EQ(measure(cache_), first);
  const std::string path = OnlyFile();
  options.micro_batch = 3;
  EXPECT_NE(measure(cache_), first);
  options.micro_batch = 2;
  std::filesystem::resize_file(path, 40);
  EXPECT_NE(measure(cache_), first) << "a file that was cut off was used";
  std::ofstream(folder_.File("file")) << "not a folder";
  EXPECT_NE(measure(TimesCache(PosixStorage(), folder_.File("file/below"))), "");
}

}  // namespace
}  // namespace reprise
