// How a run ends: the one line of an error, its exit code, and the file by which ranks tell launch/run the code.
//
//   if (absl::Status status = Run(); !status.ok()) {
//     if (communicator->rank() == 0) PrintError(status);
//     WriteExitFile(ExitCodeFor(status));
//     communicator->Abort(ExitCodeFor(status));
//   }
//
// mpirun's own exit code says little where a rank was killed, and the ranks that notice that a peer is gone may be
// killed before theirs counts. So launch/run names a file that does not exist yet in REPRISE_EXIT_FILE; the first rank
// that fails creates it (exclusively, so that the first cause wins) with its code in decimal, and launch/run exits with
// that. Without the variable (bare mpirun, srun) nothing is written.
//
// Stopping: launch/run passes SIGINT on as SIGUSR1 and SIGTERM as SIGUSR2, because mpirun follows its own SIGTERM with
// a SIGKILL. A rank that can save treats SIGUSR1 like SIGINT (exit 130) and SIGUSR2 like SIGTERM (exit 143).
#ifndef REPRISE_LAUNCH_EXIT_CODE_H_
#define REPRISE_LAUNCH_EXIT_CODE_H_

#include "absl/status/status.h"

namespace reprise {

inline constexpr int kExitDone = 0;
inline constexpr int kExitConfiguration = 2;  // flag, configuration or environment
inline constexpr int kExitData = 3;           // data, model or snapshot file
inline constexpr int kExitNoPlan = 4;         // no plan fits the budget
inline constexpr int kExitPeer = 5;           // a peer or a collective failed
inline constexpr int kExitNotFinite = 6;      // a number is not finite
inline constexpr int kExitInterrupted = 130;  // SIGINT, after a snapshot was saved
inline constexpr int kExitTerminated = 143;   // SIGTERM, after a snapshot was saved

// InvalidArgument 2, DataLoss, NotFound and FailedPrecondition 3, ResourceExhausted 4, Unavailable, DeadlineExceeded
// and Aborted 5, OutOfRange 6, OK 0; whatever else (Unimplemented, Internal, ...) 2.
int ExitCodeFor(const absl::Status& status);

// True on one process of a job, from the launcher's environment (Open MPI, PMI, Slurm), so before MPI is up: what is
// wrong on every rank alike is then said once. True without a launcher.
bool IsFirstProcess();

// Writes `reprise: <message>` and a newline to stderr as one line, whatever the message holds.
void PrintError(const absl::Status& status);

// Creates REPRISE_EXIT_FILE with `code`. Does nothing where the variable is unset or the file exists; a file that
// cannot be written is no error: launch/run then goes by mpirun's code. False where the file existed: there was an
// earlier cause, and another rank of this host told it. Async-signal-safe but for getenv.
bool WriteExitFile(int code);

// For a rank whose error the others may come to know as well, but cannot agree on: prints it, and writes the exit file,
// unless another rank has spoken. Lower ranks speak first; the caller's Abort ends the others while they wait.
void SpeakAlone(const absl::Status& status, int rank);

// Writes the exit file, flushes and exits. For processes without a communicator; with one, see Communicator::Abort.
[[noreturn]] void ExitWith(int code);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_EXIT_CODE_H_
