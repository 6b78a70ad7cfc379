// A training loop in an MPI program that is there already: all ranks but the last train on data that they make
// themselves, and the last one listens, over messages of its own.
//
//   mpirun -np 3 ./loop
#include <cstdio>
#include <memory>
#include <string>

#include "reprise/base/status_macros.h"
#include "reprise/collectives/mpi_communicator.h"
#include "reprise/training.h"

using namespace reprise;

namespace {

constexpr int64_t kVocabulary = 64, kLength = 16, kSequences = 4, kSteps = 80;
constexpr int kLossTag = 7;

// The next id is always three more: a model that has learned it has a loss of zero.
void FillBatch(int64_t step, int rank, TrainingJob& job) {
  const absl::Span<int32_t> tokens = job.tokens(0);
  const absl::Span<int32_t> labels = job.labels(0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t sequence = static_cast<int64_t>(i) / kLength;
    const int64_t position = static_cast<int64_t>(i) % kLength;
    const int64_t first = (step * 31 + rank * 17 + sequence * 7) % kVocabulary;
    tokens[i] = static_cast<int32_t>((first + 3 * position) % kVocabulary);
    labels[i] = static_cast<int32_t>((first + 3 * (position + 1)) % kVocabulary);
  }
}

absl::Status Train(MPI_Comm ranks, int listener) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, MakeMpiCommunicator(ranks, {}));
  ModelConfig config({{"n_layer", int64_t{4}},
                      {"n_embd", int64_t{32}},
                      {"n_head", int64_t{2}},
                      {"vocab_size", kVocabulary},
                      {"n_positions", kLength}},
                     "this program");
  ASSIGN_OR_RETURN(const ModelSource source, BuildModel("gpt2", config, {}));
  JobOptions options;
  options.micro_batch = kSequences;
  options.sequence_length = kLength;
  options.checkpoint = "every:2";
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingJob> job,
                   TrainingJob::Create(source.model, options, {.threads = 1}, *communicator));
  RETURN_IF_ERROR(job->SetParameters(RandomParameters(/*seed=*/1)));
  for (int64_t step = 0; step < kSteps; ++step) {
    FillBatch(step, communicator->rank(), *job);
    ASSIGN_OR_RETURN(const StepResult result, job->Step({.step = step,
                                                         .learning_rate = 1e-2,
                                                         .counted_labels = kSequences * kLength,
                                                         .first_sequence = communicator->rank() * kSequences}));
    // The program's own messages go on beside those of the job.
    if (communicator->rank() == 0) MPI_Send(&result.loss, 1, MPI_DOUBLE, listener, kLossTag, MPI_COMM_WORLD);
  }
  return absl::OkStatus();
}

void Listen() {
  for (int64_t step = 0; step < kSteps; ++step) {
    double loss = 0;
    MPI_Recv(&loss, 1, MPI_DOUBLE, /*source=*/0, kLossTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::printf("step %lld loss %.6f\n", static_cast<long long>(step), loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) {
    std::fprintf(stderr, "loop: start two ranks or more\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int listener = size - 1;
  MPI_Comm trainers = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == listener ? MPI_UNDEFINED : 0, rank, &trainers);
  if (rank == listener) {
    Listen();
  } else {
    const absl::Status status = Train(trainers, listener);
    if (!status.ok()) {
      std::fprintf(stderr, "loop: %s\n", std::string(status.message()).c_str());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_free(&trainers);
  }
  MPI_Finalize();
  return 0;
}
