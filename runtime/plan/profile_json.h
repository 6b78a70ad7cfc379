// Profiles as JSON, so that a plan can be made and checked without the machine, or by another program. The format
// stands in docs/plan_profile.md: the names of the fields of profile.h.
//
//   const std::string text = ProfileToJson(profile);
//   ASSIGN_OR_RETURN(Profile again, ProfileFromJson(text));
#ifndef REPRISE_RUNTIME_PLAN_PROFILE_JSON_H_
#define REPRISE_RUNTIME_PLAN_PROFILE_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/plan/profile.h"

namespace reprise {

inline constexpr int kProfileVersion = 2;

std::string ProfileToJson(const Profile& profile);

// InvalidArgument, with the place in it, for text that is no JSON, another version, a field that is missing, not known
// or of another type, and a profile that CheckProfile refuses.
absl::StatusOr<Profile> ProfileFromJson(absl::string_view text);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_PROFILE_JSON_H_
