#include "tests/tools/plan_milp.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/tools/paths.h"

namespace reprise::testing {
namespace {

constexpr int64_t kUnit = 256;  // sizes in the program are counts of it: small whole numbers, exact in doubles

constexpr char kExactly[] = "-ratioGap 0 -allowableGap 0 -integerTolerance 1e-9 -primalTolerance 1e-9";
constexpr int kMostNodes = 1000;  // not seconds, so that every machine gives up on the same problems

bool RunsWell(const std::string& command) { return std::system(command.c_str()) == 0; }  // NOLINT(cert-env33-c)

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// " + 3 y0 + 5 y7", a term a line: CBC's reader does not take long lines.
void AppendTerm(std::string* text, int64_t factor, size_t variable) {
  if (factor != 0) absl::StrAppend(text, factor < 0 ? " - " : " + ", std::abs(factor), " y", variable, "\n");
}

}  // namespace

bool HasCbc() { return RunsWell("command -v cbc >/dev/null 2>&1"); }

PlanMilp::PlanMilp(const Profile& profile, int64_t longest_segment) : profile_(profile) {
  AddPieces(longest_segment);
  AddRows();
}

void PlanMilp::AddPieces(int64_t longest_segment) {
  const int64_t n = profile_.layer_count();
  for (int64_t a = 1; a <= n; ++a) {
    for (const OptionProfile& option : block(a).options) {
      pieces_.push_back({.first = a, .last = a, .option = &option, .recompute_ns = option.recompute_ns});
    }
    int64_t through_ns = 0;
    for (int64_t b = a + 1; b <= std::min(n, a + longest_segment - 1); ++b) {
      through_ns += block(b - 1).recompute_through_ns;
      const OptionProfile& last = block(b).options.back();
      pieces_.push_back({.first = a, .last = b, .option = &last, .recompute_ns = through_ns + last.recompute_ns});
    }
  }
}

// What the forwards of layers first..through leave behind.
int64_t PlanMilp::Retained(const Piece& p, int64_t through) const {
  if (p.first == p.last) return p.option->kept_bytes + (p.option->reads_boundary ? block(p.first).boundary_bytes : 0);
  int64_t bytes = block(p.first).options.back().reads_boundary ? block(p.first).boundary_bytes : 0;
  for (int64_t j = p.first; j <= through; ++j) bytes += block(j).options.back().kept_bytes;
  return bytes;
}

int64_t PlanMilp::InForward(const Piece& p, int64_t layer) const {
  const OptionProfile& option = p.first == p.last ? *p.option : block(layer).options.back();
  if (layer == p.first) return option.reads_boundary ? option.forward_bytes : option.forward_bytes_dropped;
  return option.forward_bytes_dropped + Retained(p, layer - 1);
}

// In the backward of a segment, in a step of `layer`: what was made again before it, with the boundaries.
int64_t PlanMilp::WaitingIn(const Piece& p, int64_t layer) const {
  int64_t bytes = 0;
  for (int64_t j = p.first; j < layer; ++j) bytes += block(j).remade_bytes;
  return bytes;
}

int64_t PlanMilp::InRecompute(const Piece& p, int64_t layer) const {
  int64_t bytes = WaitingIn(p, layer) + GradientsLeftBehind(p.last);
  bytes += layer < p.last ? block(layer).recompute_through_bytes : p.option->recompute_bytes;
  for (int64_t j = layer + 1; j <= p.last; ++j) bytes += block(j).options.back().kept_bytes;
  if (layer == p.first) bytes += block(p.last + 1).gradient_held_bytes;
  return bytes;
}

int64_t PlanMilp::InBackward(const Piece& p, int64_t layer) const {
  const OptionProfile& option = p.first == p.last ? *p.option : block(layer).options.back();
  int64_t bytes = WaitingIn(p, layer) + GradientsLeftBehind(layer) + option.backward_bytes;
  if (layer < p.last || !Recomputes(p)) bytes += block(layer + 1).gradient_held_bytes;
  return bytes;
}

int64_t PlanMilp::GradientsLeftBehind(int64_t b) const {
  int64_t bytes = 0;
  for (int64_t j = b + 1; j <= profile_.layer_count() + 1; ++j) bytes += block(j).gradient_left_bytes;
  return bytes;
}

void PlanMilp::AddRows() {
  const int64_t n = profile_.layer_count();
  for (int64_t layer = 1; layer <= n; ++layer) {
    Row forward, recompute, backward;
    for (size_t v = 0; v < pieces_.size(); ++v) {
      const Piece& p = pieces_[v];
      if (p.last < layer) {
        for (Row* row : {&forward, &recompute, &backward}) row->bytes_of_piece.emplace_back(v, Retained(p, p.last));
      } else if (p.first <= layer) {
        forward.bytes_of_piece.emplace_back(v, InForward(p, layer));
        backward.bytes_of_piece.emplace_back(v, InBackward(p, layer));
        if (Recomputes(p)) recompute.bytes_of_piece.emplace_back(v, InRecompute(p, layer));
      }
    }
    for (Row* row : {&forward, &recompute, &backward}) rows_.push_back(std::move(*row));
  }
  Row head{.bytes_of_piece = {}, .constant = block(n + 1).forward_bytes};
  for (size_t v = 0; v < pieces_.size(); ++v)
    head.bytes_of_piece.emplace_back(v, Retained(pieces_[v], pieces_[v].last));
  rows_.push_back(std::move(head));
  rows_.push_back({.bytes_of_piece = {}, .constant = block(0).forward_bytes});
  rows_.push_back({.bytes_of_piece = {},
                   .constant = block(0).backward_bytes + GradientsLeftBehind(0) + block(1).gradient_held_bytes});
  for (Row& row : rows_) row.constant += profile_.state_bytes;
}

std::string PlanMilp::Covering() const {
  std::string text;
  for (int64_t layer = 1; layer <= profile_.layer_count(); ++layer) {
    absl::StrAppend(&text, " cover", layer, ":\n");
    for (size_t v = 0; v < pieces_.size(); ++v)
      AppendTerm(&text, pieces_[v].first <= layer && layer <= pieces_[v].last, v);
    absl::StrAppend(&text, " = 1\n");
  }
  return text;
}

MilpAnswer PlanMilp::Fastest(int64_t budget_bytes) const {
  std::string objective;
  for (size_t v = 0; v < pieces_.size(); ++v) AppendTerm(&objective, pieces_[v].recompute_ns, v);
  std::string rows;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const int64_t room = budget_bytes - rows_[r].constant;
    if (room < 0) return {.solved = true, .plan = {}, .log = {}};
    std::string sum;
    for (const auto& [v, bytes] : rows_[r].bytes_of_piece) AppendTerm(&sum, bytes / kUnit, v);
    if (!sum.empty()) absl::StrAppend(&rows, " memory", r, ":\n", sum, " <= ", room / kUnit, "\n");
  }
  return Solve(objective, rows, "");
}

MilpAnswer PlanMilp::SmallestPeak() const {
  std::string rows;
  int64_t least = 0;
  for (size_t r = 0; r < rows_.size(); ++r) {
    least = std::max(least, rows_[r].constant / kUnit);
    std::string sum;
    for (const auto& [v, bytes] : rows_[r].bytes_of_piece) AppendTerm(&sum, bytes / kUnit, v);
    if (!sum.empty()) absl::StrAppend(&rows, " memory", r, ":\n", sum, " - peak <= ", -rows_[r].constant / kUnit, "\n");
  }
  MilpAnswer answer = Solve(" peak\n", rows, absl::StrCat("Bounds\n peak >= ", least, "\nGenerals\n peak\n"));
  answer.objective *= kUnit;
  return answer;
}

MilpAnswer PlanMilp::Solve(const std::string& objective, const std::string& rows, const std::string& bounds) const {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder.File("plan.lp"));
    file << "Minimize\n obj:\n" << (objective.empty() ? " 0 y0\n" : objective) << "Subject To\n" << Covering() << rows;
    file << bounds << "Binaries\n";
    for (size_t v = 0; v < pieces_.size(); ++v) file << " y" << v << "\n";
    file << "End\n";
  }
  MilpAnswer answer;
  const std::string result = folder.File("result");
  RunsWell(absl::StrCat("cbc '", folder.File("plan.lp"), "' ", kExactly, " -maxNodes ", kMostNodes,
                        " -solve -solution '", result, "' >'", folder.File("log"), "' 2>&1"));
  const std::vector<std::string> lines = absl::StrSplit(ReadAll(result), '\n');
  const std::vector<std::string> head = absl::StrSplit(lines.front(), ' ', absl::SkipEmpty());
  answer.feasible = !head.empty() && head.front() == "Optimal";
  answer.solved = answer.feasible || (!head.empty() && (head.front() == "Infeasible" || head.front() == "Integer"));
  if (!answer.solved) answer.log = absl::StrCat(lines.front(), "\n", ReadAll(folder.File("log")));
  if (!answer.feasible) return answer;
  std::vector<bool> chosen(pieces_.size());
  for (size_t i = 1; i < lines.size(); ++i) {  // number, name, value, reduced cost
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ', absl::SkipEmpty());
    double value = 0;
    size_t variable = 0;
    if (words.size() < 3 || !absl::SimpleAtod(words[2], &value)) continue;
    if (words[1] == "peak") answer.objective = std::llround(value);
    if (words[1][0] != 'y' || !absl::SimpleAtoi(words[1].substr(1), &variable) || std::lround(value) != 1) continue;
    chosen[variable] = true;
    if (bounds.empty()) answer.objective += pieces_[variable].recompute_ns;
  }
  answer.plan = PlanOf(chosen);
  return answer;
}

Plan PlanMilp::PlanOf(const std::vector<bool>& chosen) const {
  Plan plan;
  plan.policy = "cbc";
  plan.layers.resize(static_cast<size_t>(profile_.layer_count()));
  for (size_t v = 0; v < pieces_.size(); ++v) {
    if (!chosen[v]) continue;
    const Piece& p = pieces_[v];
    for (int64_t b = p.first; b <= p.last; ++b) {
      plan.layers[static_cast<size_t>(b - 1)] = {
          .keep = p.option->keep, .set = p.option->set, .starts_segment = b == p.first};
    }
  }
  return plan;
}

}  // namespace reprise::testing
