#include "launch/same_settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace reprise {

absl::Status CompareSettings(const std::vector<std::string>& texts) {
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<absl::string_view> ours = absl::StrSplit(texts[rank], '\n');
    const std::vector<absl::string_view> first = absl::StrSplit(texts[0], '\n');
    const size_t lines = std::min(ours.size(), first.size());
    for (size_t line = 0; line < lines; ++line) {
      if (ours[line] == first[line]) continue;
      const std::pair<absl::string_view, absl::string_view> here =
          absl::StrSplit(ours[line], absl::MaxSplits(" = ", 1));
      const std::pair<absl::string_view, absl::string_view> there =
          absl::StrSplit(first[line], absl::MaxSplits(" = ", 1));
      if (here.first != there.first) break;
      return absl::InvalidArgumentError(absl::StrCat("--", here.first, " differs between ranks: ", there.second,
                                                     " on rank 0, ", here.second, " on rank ", rank,
                                                     "; start every rank with the same flags"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " has other settings than rank 0: start every rank with the same program"));
  }
  return absl::OkStatus();
}

absl::Status CheckSameOnAllRanks(Communicator& communicator, const std::string& text) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, AllGatherText(communicator, text));
  return CompareSettings(texts);
}

}  // namespace reprise
