// Registries of names (models, operations, gradient rules, kernels) are filled by code as it is loaded. A name that is
// taken is a broken invariant, except while a plug-in is loaded: then it is noted here, and the plug-in refused.
//
//   RegistrationScope scope;                     // around dlopen
//   ... code of the plug-in calls RegisterModel, RegisterOperation, ...
//   if (!scope.refusals().empty()) ...           // "operation add is registered twice"
//
// Loading is for one thread at a time.
#ifndef REPRISE_BASE_REGISTRATION_H_
#define REPRISE_BASE_REGISTRATION_H_

#include <string>
#include <vector>

namespace reprise {

class RegistrationScope {
 public:
  RegistrationScope();
  ~RegistrationScope();
  RegistrationScope(const RegistrationScope&) = delete;
  RegistrationScope& operator=(const RegistrationScope&) = delete;

  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  friend bool AcceptRegistration(bool is_new, const std::string& what);
  std::vector<std::string> refusals_;
};

// For the registries: returns `is_new`. Where the name, `what`, is taken, notes it in the scope at hand; without one
// the process ends.
bool AcceptRegistration(bool is_new, const std::string& what);

}  // namespace reprise

#endif  // REPRISE_BASE_REGISTRATION_H_
