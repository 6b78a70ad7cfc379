// Schedule: one step as a flat list of instructions. Plain data: printed, hashed, compared, checked (checker.h), and
// run by an interpreter that decides nothing (step.h).
//
// The list is the order of issue, the same on every rank. Each instruction stands on a stream; instructions of one
// stream run in list order, and `waits` orders them across streams. No wait is listed that the others imply. An item is
// a piece of arena or host memory with an address; it is live from its first to its last access, counted in ticks: a
// tick is one kernel call of a compute instruction, or one whole instruction of another stream.
#ifndef REPRISE_RUNTIME_SCHEDULE_SCHEDULE_H_
#define REPRISE_RUNTIME_SCHEDULE_SCHEDULE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "runtime/graph/data_kind.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

enum class ItemKind : uint8_t {
  kState,      // parameters, optimizer state: live for the whole step, at the same address in every schedule of a job
  kBatch,      // scalars and data of the batch: likewise
  kGathered,   // a unit's parameters, whole on this rank for a while
  kGradient,   // of parameters, whole or a shard
  kRetained,   // boundaries, and what backward reads of a forward
  kTransient,  // what a block needs for a moment
  kScratch,    // of one kernel call
};
const char* ItemKindName(ItemKind kind);

enum class Memory : uint8_t { kDevice, kHost };

struct Item {
  std::string name;
  int64_t bytes = 0;
  ItemKind kind = ItemKind::kTransient;
  Memory memory = Memory::kDevice;
  int64_t first = -1;  // ticks; kState and kBatch: the whole step
  int64_t last = -1;
  int64_t offset = 0;  // bytes, in its memory

  bool persistent() const { return kind == ItemKind::kState || kind == ItemKind::kBatch; }
};

// A place in an item: offset + rank * rank_stride bytes.
struct Operand {
  int32_t item = -1;  // -1: none
  int64_t offset = 0;
  int64_t rank_stride = 0;
};

// Where a unit's parameters and optimizer state stand for the whole step.
struct UnitState {
  Operand master;                // float32: this rank's shard, or the whole unit under sharding `none`
  Operand master_shard;          // this rank's shard of it
  Operand whole;                 // compute type; item -1 under `full`, where each gather makes its own
  std::vector<Operand> moments;  // float32, as large as master
};

// One kernel call of a compute instruction.
struct Call {
  int32_t kernel = -1;  // into Schedule::kernels
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;  // item -1: nobody reads it
  Operand scratch;
  uint32_t accumulate = 0;  // see KernelArguments
};

enum class InstructionKind : uint8_t {
  kGather,           // master parameters of a unit -> whole, in the compute type
  kForward,          // of a block
  kHead,             // forward and backward of the last block
  kRecompute,        // of a layer
  kBackward,         // of a block
  kOffload,          // device -> host
  kReload,           // host -> device
  kReduce,           // whole gradients of a unit -> sum over ranks, in this rank's shard
  kGatherGradients,  // summed shards -> whole (sharding none)
  kNorm,             // squares of this rank's shards
  kSumScalars,       // loss, squares and count over ranks
  kFinish,           // the factor of the update; stops the step where a number is not finite
  kUpdate,           // of a unit's master parameters
};
inline constexpr int kInstructionKindCount = 13;
const char* InstructionKindName(InstructionKind kind);

struct Access {
  int32_t item = -1;
  bool write = false;
};

struct Instruction {
  InstructionKind kind = InstructionKind::kForward;
  Stream stream = Stream::kCompute;
  int32_t block = -1;  // -1: none
  int32_t unit = -1;
  int32_t micro_batch = -1;
  std::vector<int32_t> waits;    // earlier instructions of other streams
  std::vector<Access> accesses;  // each item once; write also where it is read and written
  std::vector<Call> calls;       // compute
  Operand from, to;              // kOffload, kReload, kReduce (whole, shard), kGather (master, whole)
  int64_t count = 0;             // kOffload, kReload: bytes; collectives: elements of a shard
  bool accumulate = false;       // kReduce
  int64_t flops = 0;
  int64_t first_tick = 0, last_tick = 0;
};

struct Schedule {
  std::vector<Item> items;
  std::vector<Instruction> instructions;
  std::vector<KernelSpec> kernels;
  int64_t device_bytes = 0;  // the arena: the predicted peak
  int64_t host_bytes = 0;
  int64_t largest_live_sum = 0;  // of device items, over ticks
  int64_t peak_tick = 0;
  int32_t scalars = -1;                                   // item: f64 [loss, squares, count]
  std::array<std::vector<int32_t>, kDataKindCount> data;  // items, by kind and micro-batch; none where nobody reads it
  std::vector<UnitState> unit_states;                     // by unit

  const std::vector<int32_t>& items_of(DataKind kind) const { return data[static_cast<size_t>(kind)]; }

  // The instruction that holds the peak tick; -1 for an empty schedule.
  int32_t PeakInstruction() const;
  // Items live at the peak, largest first.
  std::vector<int32_t> ItemsAtPeak() const;
  std::string InstructionLabel(int32_t instruction) const;  // "forward block 3 micro-batch 0"
  std::string InstructionText(int32_t instruction) const;   // "forward block 3 micro-batch 0 [compute] waits 4, 7"
  std::string ToString() const;
  uint64_t Hash() const;  // of all that must be equal between ranks
};

inline constexpr int64_t kScalarCount = 3;
enum Scalar : int64_t { kLossScalar = 0, kSquaresScalar = 1, kCountScalar = 2 };

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_SCHEDULE_H_
