#include "runtime/tensor/cpu/attention_head.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/tensor/cpu/bfloat16_rows.h"
#include "runtime/tensor/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/attention_head.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "runtime/tensor/cpu/philox-inl.h"
#include "runtime/tensor/cpu/tile_product-inl.h"

#ifndef REPRISE_RUNTIME_TENSOR_CPU_ATTENTION_HEAD_ONCE_
#define REPRISE_RUNTIME_TENSOR_CPU_ATTENTION_HEAD_ONCE_
namespace reprise {
namespace {

constexpr int64_t kTile = kAttentionTile;
constexpr int64_t kPadding = 16;  // floats of the longest vector

int64_t Padded(int64_t count) { return (count + kPadding - 1) / kPadding * kPadding; }

// A row of dropout factors is drawn in whole vectors of groups of four.
constexpr int64_t kDropoutRow = kTile + 4 * kPadding;

}  // namespace
}  // namespace reprise
#endif

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

// Hands out parts of the scratch, each 64-byte aligned.
class Pieces {
 public:
  explicit Pieces(float* start) : next_(start) {}
  float* Take(int64_t floats) {
    float* piece = next_;
    next_ += Padded(floats);
    return piece;
  }

 private:
  float* next_;
};

// Highway's Exp gives 0 for NaN.
HWY_INLINE V ExpOrNaN(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(F(), x)); }

// A matrix of one head in a sequence's rows, of either type.
struct HeadRows {
  HeadRows(const AttentionShape& shape, HeadInput input)
      : HeadRows(shape, HeadOutput{const_cast<std::byte*>(input.data), input.stride}) {}
  HeadRows(const AttentionShape& shape, HeadOutput output)
      : data(output.data), stride(output.stride), size(shape.size), bfloat16(shape.bfloat16) {}

  std::byte* data;  // null: nothing is stored
  int64_t stride;   // elements from row to row
  int64_t size;
  bool bfloat16;

  std::byte* Row(int64_t row) const { return data + row * stride * (bfloat16 ? 2 : 4); }

  // Rows [first, first + count) times `scale` as float32, padded with zeros to Padded(size).
  void Load(int64_t first, int64_t count, float scale, float* to) const {
    const int64_t padded = Padded(size);
    for (int64_t r = 0; r < count; ++r, to += padded) {
      if (bfloat16) {
        WidenRow(reinterpret_cast<const BFloat16*>(Row(first + r)), to, size);
      } else {
        std::memcpy(to, Row(first + r), static_cast<size_t>(size) * 4);
      }
      for (int64_t c = 0; c < size; ++c) to[c] *= scale;
      std::fill(to + size, to + padded, 0.0F);
    }
  }

  // The matrix of the head `heads` behind this one.
  HeadRows Behind(int64_t heads) const {
    HeadRows rows = *this;
    if (data != nullptr) rows.data += heads * size * (bfloat16 ? 2 : 4);
    return rows;
  }

  void Store(int64_t row, const float* from) const {
    if (data == nullptr) return;
    if (bfloat16) {
      RoundRow(from, nullptr, reinterpret_cast<BFloat16*>(Row(row)), size);
    } else {
      std::memcpy(Row(row), from, static_cast<size_t>(size) * 4);
    }
  }
};

// [count, size] rows of Padded(size) to [size, kTile], the missing columns zero.
void Transpose(const float* rows, int64_t count, int64_t size, float* to) {
  const int64_t padded = Padded(size);
  for (int64_t c = 0; c < size; ++c) {
    for (int64_t r = 0; r < count; ++r) to[c * kTile + r] = rows[r * padded + c];
    std::fill(to + c * kTile + count, to + (c + 1) * kTile, 0.0F);
  }
}

// What dropout multiplies probabilities of a row of a tile with: 0 or 1 / (1 - p).
class Dropout {
 public:
  Dropout(const AttentionShape& shape, const AttentionHead& head, int64_t query_head)
      : active_(shape.dropout > 0),
        key_(head.key),
        sequence_(head.sequence),
        row_groups_((shape.length + 3) / 4),
        first_row_(query_head * shape.length),
        threshold_(DropThreshold(shape.dropout)),
        kept_(static_cast<float>(1 / (1 - shape.dropout))) {}

  bool active() const { return active_; }

  // Factors of keys [j, j + count) of query i, j a multiple of 4; `factors` has kDropoutRow places.
  void Draw(int64_t i, int64_t j, int64_t count, float* factors) const {
    const PhiloxTag u32;
    const auto lanes = static_cast<int64_t>(hn::Lanes(u32));
    const int64_t group = (first_row_ + i) * row_groups_ + j / 4;
    auto* bits = reinterpret_cast<uint32_t*>(factors);
    for (int64_t done = 0; done < count; done += 4 * lanes) {
      PhiloxGroups(key_, sequence_, group + done / 4, bits + done);
      for (int64_t v = done; v < done + 4 * lanes; v += lanes) {
        const auto dropped = hn::Lt(hn::LoadU(u32, bits + v), hn::Set(u32, threshold_));
        hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(F(), dropped), hn::Set(F(), kept_)), F(), factors + v);
      }
    }
  }

 private:
  bool active_;
  RandomKey key_;
  int64_t sequence_;
  int64_t row_groups_;
  int64_t first_row_;
  uint32_t threshold_;
  float kept_;
};

// Keys [first, end) of the tile at j that query i sees.
struct Visible {
  Visible(const AttentionShape& shape, const AttentionHead& head, int64_t i, int64_t j)
      : first(head.starts == nullptr ? 0 : std::clamp<int64_t>(head.starts[i] - j, 0, kTile)),
        end(std::clamp<int64_t>((shape.causal ? i + 1 : shape.length) - j, 0, kTile)) {}

  bool none() const { return first >= end; }

  // Of a row of scores with `count` places, those that are not seen.
  void Hide(float* scores, int64_t count) const {
    std::fill(scores, scores + std::min(first, count), -std::numeric_limits<float>::infinity());
    std::fill(scores + std::min(end, count), scores + count, -std::numeric_limits<float>::infinity());
  }

  int64_t first;
  int64_t end;
};

// The first key that one of queries [i, i + count) sees.
int64_t FirstKey(const AttentionHead& head, int64_t i, int64_t count) {
  return head.starts == nullptr ? 0 : *std::min_element(head.starts + i, head.starts + i + count);
}

// ------------------------------------------------------------------------------------------------------- forward

// Running state of one tile of queries.
struct QueryTile {
  float* o;        // [queries, Padded(size)], not yet divided by `sum`
  float* highest;  // of the scores so far
  float* sum;      // of exp(score - highest)
};

// Scores of one query and the keys of a tile to exp(score - highest); updates the running state.
void SoftmaxRow(float* scores, const Visible& visible, int64_t count, int64_t size, float* o, float* highest,
                float* sum) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  if (visible.none()) {
    std::fill(scores, scores + count, 0.0F);
    return;
  }
  visible.Hide(scores, count);
  V high = hn::Set(F(), *highest);
  for (int64_t j = 0; j < count; j += lanes) high = hn::Max(high, hn::LoadU(F(), scores + j));
  high = hn::MaxOfLanes(F(), high);
  V added = hn::Zero(F());
  for (int64_t j = 0; j < count; j += lanes) {
    const V e = ExpOrNaN(hn::Sub(hn::LoadU(F(), scores + j), high));
    hn::StoreU(e, F(), scores + j);
    added = hn::Add(added, e);
  }
  const V shrink = ExpOrNaN(hn::Sub(hn::Set(F(), *highest), high));
  const float factor = hn::GetLane(shrink);
  *highest = hn::GetLane(high);
  *sum = *sum * factor + hn::GetLane(hn::SumOfLanes(F(), added));
  if (factor == 1.0F) return;
  for (int64_t c = 0; c < size; c += lanes) hn::StoreU(hn::Mul(hn::LoadU(F(), o + c), shrink), F(), o + c);
}

void Multiply(float* values, const float* factors, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  for (int64_t j = 0; j < count; j += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(F(), values + j), hn::LoadU(F(), factors + j)), F(), values + j);
  }
}

void Forward(const AttentionShape& shape, const AttentionHead& head, int64_t first, int64_t step, HeadOutput o,
             float* lse) {
  const int64_t size = shape.size;
  const int64_t padded = Padded(size);
  const HeadRows q_rows(shape, head.q);
  const HeadRows o_rows(shape, o);
  const Dropout dropout(shape, head, head.head);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));

  Pieces pieces(head.scratch);
  float* v = pieces.Take(shape.length * padded);
  float* k_transposed = pieces.Take(shape.tiles() * size * kTile);
  float* q = pieces.Take(kTile * padded);
  float* scores = pieces.Take(kTile * kTile);
  float* factors = pieces.Take(kDropoutRow);
  const QueryTile state = {pieces.Take(kTile * padded), pieces.Take(kTile), pieces.Take(kTile)};

  // Keys that no tile of this call sees need not be read.
  const int64_t last = first + (shape.tiles() - 1 - first) / step * step;
  const int64_t end = shape.causal ? std::min(shape.length, (last + 1) * kTile) : shape.length;
  for (int64_t j = 0; j < end; j += kTile) {
    const int64_t keys = std::min(kTile, shape.length - j);
    HeadRows(shape, head.k).Load(j, keys, 1, v);
    Transpose(v, keys, size, k_transposed + j * size);
  }
  HeadRows(shape, head.v).Load(0, end, 1, v);

  for (int64_t tile = first; tile < shape.tiles(); tile += step) {
    const int64_t i = tile * kTile;
    const int64_t queries = std::min(kTile, shape.length - i);
    q_rows.Load(i, queries, scale, q);
    std::fill(state.o, state.o + queries * padded, 0.0F);
    std::fill(state.highest, state.highest + queries, -std::numeric_limits<float>::infinity());
    std::fill(state.sum, state.sum + queries, 0.0F);
    const int64_t key_end = shape.causal ? i + queries : shape.length;
    for (int64_t j = FirstKey(head, i, queries) / kTile * kTile; j < key_end; j += kTile) {
      const int64_t keys = std::min(kTile, key_end - j);
      const int64_t count = Padded(keys);
      MultiplyTile(queries, count, size, {q, padded, 1}, k_transposed + j * size, kTile, scores, kTile, false);
      for (int64_t r = 0; r < queries; ++r) {
        float* row = scores + r * kTile;
        SoftmaxRow(row, Visible(shape, head, i + r, j), count, padded, state.o + r * padded, state.highest + r,
                   state.sum + r);
        if (!dropout.active()) continue;
        dropout.Draw(i + r, j, count, factors);
        Multiply(row, factors, count);
      }
      MultiplyTile(queries, padded, keys, {scores, kTile, 1}, v + j * padded, padded, state.o, padded, true);
    }
    for (int64_t r = 0; r < queries; ++r) {
      float* row = state.o + r * padded;
      for (int64_t c = 0; c < size; ++c) row[c] /= state.sum[r];
      o_rows.Store(i + r, row);
      if (lse != nullptr) lse[i + r] = state.highest[r] + std::log(state.sum[r]);
    }
  }
}

// ------------------------------------------------------------------------------------------------------ backward

// Scores s and gradients dp of a row of a tile to p (with dropout) and ds.
void GradientRow(float* s, float* dp, const float* factors, const Visible& visible, int64_t count, float lse,
                 float delta) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  visible.Hide(s, count);
  for (int64_t j = 0; j < count; j += lanes) {
    const V p = ExpOrNaN(hn::Sub(hn::LoadU(F(), s + j), hn::Set(F(), lse)));
    const V factor = factors == nullptr ? hn::Set(F(), 1.0F) : hn::LoadU(F(), factors + j);
    const V ds = hn::Mul(p, hn::Sub(hn::Mul(hn::LoadU(F(), dp + j), factor), hn::Set(F(), delta)));
    hn::StoreU(hn::Mul(p, factor), F(), s + j);
    hn::StoreU(ds, F(), dp + j);
  }
}

float Dot(const float* a, const float* b, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  V sum = hn::Zero(F());
  for (int64_t c = 0; c < count; c += lanes) sum = hn::MulAdd(hn::LoadU(F(), a + c), hn::LoadU(F(), b + c), sum);
  return hn::GetLane(hn::SumOfLanes(F(), sum));
}

// One query head's share of the gradients of its key-value head. dk and dv of all keys stay in scratch where several
// query heads add to them, else those of one tile of keys.
class QueryHeadBackward {
 public:
  QueryHeadBackward(const AttentionShape& shape, const AttentionHead& head)
      : shape_(shape),
        head_(head),
        padded_(Padded(shape.size)),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.size)))) {
    Pieces pieces(head.scratch);
    q_ = pieces.Take(shape.length * padded_);
    d_o_ = pieces.Take(shape.length * padded_);
    dq_ = pieces.Take(shape.length * padded_);
    delta_ = pieces.Take(shape.length);
    k_ = pieces.Take(kTile * padded_);
    k_transposed_ = pieces.Take(shape.size * kTile);
    v_transposed_ = pieces.Take(shape.size * kTile);
    const int64_t kept = shape.group() > 1 ? shape.length : kTile;
    dk_ = pieces.Take(kept * padded_);
    dv_ = pieces.Take(kept * padded_);
    s_ = pieces.Take(kTile * kTile);
    dp_ = pieces.Take(kTile * kTile);
    factors_ = pieces.Take(kDropoutRow);
  }

  // Query head `member` of the group; after the last, dk and dv are complete and stored.
  void Run(int64_t member, const HeadRows& dq_rows, const HeadRows& dk_rows, const HeadRows& dv_rows) const {
    LoadQueries(member);
    const bool last = member + 1 == shape_.group();
    for (int64_t j = 0; j < shape_.length; j += kTile) {
      const int64_t keys = std::min(kTile, shape_.length - j);
      float* dk = dk_ + (shape_.group() > 1 ? j * padded_ : 0);
      float* dv = dv_ + (shape_.group() > 1 ? j * padded_ : 0);
      KeyTile(member, j, keys, dk, dv);
      for (int64_t r = 0; last && r < keys; ++r) {
        dk_rows.Store(j + r, dk + r * padded_);
        dv_rows.Store(j + r, dv + r * padded_);
      }
    }
    for (int64_t i = 0; i < shape_.length; ++i) {
      float* row = dq_ + i * padded_;
      for (int64_t c = 0; c < shape_.size; ++c) row[c] *= scale_;
      dq_rows.Store(i, row);
    }
  }

 private:
  void LoadQueries(int64_t member) const {
    HeadRows(shape_, head_.q).Behind(member).Load(0, shape_.length, scale_, q_);
    HeadRows(shape_, head_.d_o).Behind(member).Load(0, shape_.length, 1, d_o_);
    HeadRows(shape_, head_.o).Behind(member).Load(0, shape_.length, 1, dq_);
    for (int64_t i = 0; i < shape_.length; ++i) delta_[i] = Dot(d_o_ + i * padded_, dq_ + i * padded_, padded_);
    std::fill(dq_, dq_ + shape_.length * padded_, 0.0F);
  }

  // Adds to dq of all queries and to dk and dv of keys [j, j + keys), which the first tile of the first head assigns.
  void KeyTile(int64_t member, int64_t j, int64_t keys, float* dk, float* dv) const {
    const Dropout dropout(shape_, head_, head_.head + member);
    const float* lse = head_.lse + member * shape_.length;
    const int64_t size = shape_.size;
    const int64_t count = Padded(keys);
    HeadRows(shape_, head_.v).Load(j, keys, 1, k_);
    Transpose(k_, keys, size, v_transposed_);
    HeadRows(shape_, head_.k).Load(j, keys, 1, k_);
    Transpose(k_, keys, size, k_transposed_);
    const int64_t start = shape_.causal ? j : 0;
    for (int64_t i = start; i < shape_.length; i += kTile) {
      const int64_t queries = std::min(kTile, shape_.length - i);
      if (i > start && FirstKey(head_, i, queries) >= j + keys) continue;
      const bool add = member > 0 || i > start;
      const float* q_tile = q_ + i * padded_;
      const float* d_o_tile = d_o_ + i * padded_;
      MultiplyTile(queries, count, size, {q_tile, padded_, 1}, k_transposed_, kTile, s_, kTile, false);
      MultiplyTile(queries, count, size, {d_o_tile, padded_, 1}, v_transposed_, kTile, dp_, kTile, false);
      for (int64_t r = 0; r < queries; ++r) {
        if (dropout.active()) dropout.Draw(i + r, j, count, factors_);
        GradientRow(s_ + r * kTile, dp_ + r * kTile, dropout.active() ? factors_ : nullptr,
                    Visible(shape_, head_, i + r, j), count, lse[i + r], delta_[i + r]);
      }
      MultiplyTile(keys, padded_, queries, {s_, 1, kTile}, d_o_tile, padded_, dv, padded_, add);
      MultiplyTile(keys, padded_, queries, {dp_, 1, kTile}, q_tile, padded_, dk, padded_, add);
      MultiplyTile(queries, padded_, keys, {dp_, kTile, 1}, k_, padded_, dq_ + i * padded_, padded_, true);
    }
  }

  const AttentionShape& shape_;
  const AttentionHead& head_;
  int64_t padded_;
  float scale_;
  float *q_, *d_o_, *dq_, *delta_, *k_, *k_transposed_, *v_transposed_, *dk_, *dv_, *s_, *dp_, *factors_;
};

void Backward(const AttentionShape& shape, const AttentionHead& head, HeadOutput dq, HeadOutput dk, HeadOutput dv) {
  const QueryHeadBackward backward(shape, head);
  for (int64_t member = 0; member < shape.group(); ++member) {
    backward.Run(member, HeadRows(shape, dq).Behind(member), HeadRows(shape, dk), HeadRows(shape, dv));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {
HWY_EXPORT(Forward);
HWY_EXPORT(Backward);
}  // namespace

int64_t AttentionForwardScratch(const AttentionShape& shape) {
  const int64_t padded = Padded(shape.size);
  return shape.length * padded + shape.tiles() * shape.size * kTile + 2 * kTile * padded + kTile * kTile + kDropoutRow +
         2 * kTile;
}

int64_t AttentionBackwardScratch(const AttentionShape& shape) {
  const int64_t padded = Padded(shape.size);
  const int64_t keys = shape.group() > 1 ? shape.length : kTile;
  return (3 * shape.length + kTile + 2 * keys) * padded + Padded(shape.length) + 2 * shape.size * kTile +
         2 * kTile * kTile + kDropoutRow;
}

void AttentionForward(const AttentionShape& shape, const AttentionHead& head, int64_t first, int64_t step, HeadOutput o,
                      float* lse) {
  HWY_DYNAMIC_DISPATCH(Forward)(shape, head, first, step, o, lse);
}

void AttentionBackward(const AttentionShape& shape, const AttentionHead& head, HeadOutput dq, HeadOutput dk,
                       HeadOutput dv) {
  HWY_DYNAMIC_DISPATCH(Backward)(shape, head, dq, dk, dv);
}

}  // namespace reprise
#endif
