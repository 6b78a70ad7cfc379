#include "base/bytes.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(ParseBytes, ReadsUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("4096"), 4096);
  EXPECT_EQ(*ParseBytes("3KiB"), 3072);
  EXPECT_EQ(*ParseBytes("1.5GiB"), 1610612736);
  EXPECT_EQ(*ParseBytes("2 MiB"), 2097152);
}

TEST(ParseBytes, RefusesNonsense) {
  for (const char* text :
       {"", "GiB", "-1MiB", "1.5", "1e3MiB", "nan", "infMiB", "12GB", "0x10", "99999999999TiB", "1 2"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(FormatBytes, UsesTheLargestUnit) {
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(150994944), "144.0 MiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.0 KiB");
}

}  // namespace
}  // namespace reprise
