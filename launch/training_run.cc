#include "launch/training_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "device/affinity.h"
#include "device/host_memory.h"
#include "launch/device_choice.h"
#include "launch/exit_code.h"
#include "launch/export.h"
#include "launch/gradient_file.h"
#include "launch/job_setup.h"
#include "launch/machine_choice.h"
#include "launch/maximize.h"
#include "launch/output_paths.h"
#include "launch/plan_text.h"
#include "launch/plugins.h"
#include "launch/profile_text.h"
#include "launch/progress.h"
#include "launch/run_report.h"
#include "launch/run_table.h"
#include "launch/same_settings.h"
#include "launch/validation_loss.h"
#include "runtime/model/low_rank.h"
#include "runtime/snapshot/huggingface.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/backend.h"
#include "runtime/train/batches.h"
#include "runtime/train/dataset.h"
#include "runtime/train/image_dataset.h"
#include "runtime/train/learning_rate.h"
#include "runtime/train/metrics.h"
#include "runtime/train/times_cache.h"
#include "runtime/train/trace.h"
#include "runtime/train/training_job.h"

namespace reprise {
namespace {

constexpr char kTrainPart[] = "train";
constexpr char kTestPart[] = "t10k";

// For what only this rank knows, in the middle of a step: the others would wait for it, so it ends them all.
void EndAloneUnlessOk(const absl::Status& status, Communicator& communicator) {
  if (status.ok()) return;
  SpeakAlone(status, communicator.rank());
  communicator.Abort(ExitCodeFor(status));
}

class TrainingRun {
 public:
  TrainingRun(const TrainConfiguration& configuration, Communicator& communicator)
      : c_(configuration), communicator_(communicator), first_(communicator.rank() == 0) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckSameOnAllRanks(communicator_, ToToml(c_)));
    RETURN_IF_ERROR(Agree(communicator_, CheckOutputs()));
    if (!c_.plugin.empty()) {
      RETURN_IF_ERROR(CheckSameFiles("--plugin", absl::StrJoin(c_.plugin, ","), LoadPlugins(c_.plugin)));
    }
    RETURN_IF_ERROR(ChooseMachine());
    RETURN_IF_ERROR(ChooseMicroBatch());
    RETURN_IF_ERROR(Agree(communicator_, Prepare()));
    RETURN_IF_ERROR(CheckSameFiles("--data", c_.data, data_->Identity()));
    if (validation_ != nullptr) {
      RETURN_IF_ERROR(CheckSameFiles("--validation_data", c_.validation_data, validation_->Identity()));
    }
    if (checkpoint_ != nullptr) RETURN_IF_ERROR(CheckSameFiles("--init", c_.init, checkpoint_->Identity(expected_)));
    if (adapter_ != nullptr) {
      RETURN_IF_ERROR(CheckSameFiles("--adapter", c_.adapter, adapter_->Identity(expected_of_adapter_)));
    }
    RETURN_IF_ERROR(Agree(communicator_, OpenOutputs()));
    Progress progress(steps_, !first_);
    progress.Note(MachineText());
    RETURN_IF_ERROR(MakeJob(&progress));
    progress.Note(absl::StrCat(PlanText(job_->plan()), EstimateText(job_->plan())));
    RETURN_IF_ERROR(WriteRunLine());
    for (int64_t step = 0; step < steps_; ++step) {
      ASSIGN_OR_RETURN(StepMetrics metrics, TrainStep(step, &progress));
      const bool last = step + 1 == steps_;
      if (last && !c_.dump_gradients.empty()) RETURN_IF_ERROR(Agree(communicator_, WriteGradients()));
      if (last) RETURN_IF_ERROR(Agree(communicator_, TakeTrace(step + 1)));
      if (validation_ != nullptr && (last || (c_.validation_every > 0 && (step + 1) % c_.validation_every == 0))) {
        ASSIGN_OR_RETURN(metrics.validation_loss,
                         ValidationLoss(*validation_batches_, *job_, communicator_, &progress));
        progress.Note(absl::StrFormat("step %d/%d  validation loss %.4f", step + 1, steps_, *metrics.validation_loss));
      }
      table_.Add(metrics);
      if (metrics_.has_value()) EndAloneUnlessOk(metrics_->WriteStep(metrics), communicator_);
      if (report_.has_value()) report_->Add(metrics);
      progress.Step(metrics);
    }
    if (first_) {
      const int64_t whole = UncheckpointedPeak(setup_.source.model, setup_.options, communicator_.size(), machine_);
      progress.Note(table_.Text(job_->plan(), whole, job_->device().bytes_beside_arena()));
    }
    if (!c_.export_folder.empty()) {
      RETURN_IF_ERROR(Export(storage_, c_, setup_, communicator_, *job_));
      progress.Note(absl::StrCat("exported: ", c_.export_folder));
    }
    if (c_.report.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Agree(communicator_, report_.has_value() ? report_->Write() : absl::OkStatus()));
    progress.Note(absl::StrCat("report: ", c_.report));
    return absl::OkStatus();
  }

 private:
  absl::Status ChooseMachine() {
    share_ = CoresForRank(communicator_.local_rank(), communicator_.local_size());
    ASSIGN_OR_RETURN(machine_, MachineOfRank(c_, communicator_, share_));
    return absl::OkStatus();
  }

  // --micro_batch=auto: rank 0 looks for all.
  absl::Status ChooseMicroBatch() {
    if (!c_.micro_batch.automatic) return absl::OkStatus();
    absl::StatusOr<int64_t> largest = first_ ? LargestMicroBatch() : 0;
    RETURN_IF_ERROR(Agree(communicator_, largest.status()));
    RETURN_IF_ERROR(
        Broadcast(communicator_, "micro_batch=auto", {reinterpret_cast<std::byte*>(&*largest), sizeof(*largest)}, 0));
    ASSIGN_OR_RETURN(c_, WithValue(c_, "micro_batch", *largest));
    return absl::OkStatus();
  }

  // What the memory budget holds, but not more than the data has windows for in one step.
  absl::StatusOr<int64_t> LargestMicroBatch() {
    ASSIGN_OR_RETURN(const TrainConfiguration one, WithValue(c_, "micro_batch", 1));
    ASSIGN_OR_RETURN(setup_, MakeJobSetup(storage_, one));
    ASSIGN_OR_RETURN(data_, OpenData(c_.data, c_.labels, kTrainPart));
    const int64_t most = data_->sequences() / (communicator_.size() * c_.accumulation);
    ASSIGN_OR_RETURN(const KernelOptions options, KernelsOf(machine_));
    KernelSet kernels(options);
    return Maximize("micro_batch", c_, communicator_.size(), kernels, std::max<int64_t>(most, 1));
  }

  // Everything that can be refused before memory is taken.
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(setup_, MakeJobSetup(storage_, c_));
    if (data_ == nullptr) {  // else opened to choose the micro-batch: its tokens are looked through once
      ASSIGN_OR_RETURN(data_, OpenData(c_.data, c_.labels, kTrainPart));
    }
    ASSIGN_OR_RETURN(TrainingBatches batches,
                     TrainingBatches::Create(data_.get(), {.ranks = communicator_.size(),
                                                           .micro_batch = c_.micro_batch.sequences,
                                                           .accumulation = c_.accumulation,
                                                           .seed = c_.seed}));
    batches_.emplace(std::move(batches));
    steps_ = c_.steps > 0 ? c_.steps : c_.epochs * batches_->steps_per_epoch();
    if (!c_.validation_data.empty()) {
      ASSIGN_OR_RETURN(validation_, OpenData(c_.validation_data, c_.validation_labels, kTestPart));
      ASSIGN_OR_RETURN(ValidationBatches validation,
                       ValidationBatches::Create(validation_.get(), c_.micro_batch.sequences, c_.validation_windows));
      validation_batches_.emplace(validation);
    }
    ASSIGN_OR_RETURN(const Decay decay, ParseDecay(c_.decay));
    rate_ = {.base = c_.learning_rate,
             .minimum = c_.min_learning_rate,
             .warmup_steps = c_.warmup_steps,
             .steps = std::max<int64_t>(steps_, 1),
             .decay = decay};
    RETURN_IF_ERROR(Validate(rate_));
    if (!c_.init.empty() || !c_.adapter.empty()) FindExpected();
    if (!c_.init.empty()) {
      ASSIGN_OR_RETURN(checkpoint_, HuggingFaceCheckpoint::Open(storage_, c_.init, setup_.source.checkpoint));
      RETURN_IF_ERROR(checkpoint_->Check(expected_));
      leftover_ = checkpoint_->Leftover(expected_);
      rounded_ = checkpoint_->Rounded(expected_);
      RETURN_IF_ERROR(checkpoint_->CheckTied(communicator_.rank(), communicator_.size()));
    }
    return c_.adapter.empty() ? absl::OkStatus() : OpenAdapter();
  }

  // What the folders of --init and --adapter are to hold.
  void FindExpected() {
    const Program program = TraceModel(setup_.source.model, {.sequences = 1, .sequence_length = 1});
    for (const Unit& unit : MakeUnits(program, 1).units) {
      for (const UnitParameter& p : unit.parameters) {
        const bool of_adapter = IsOfAdapter(setup_.source.model, *p.parameter);
        (of_adapter ? expected_of_adapter_ : expected_).push_back({p.parameter->name(), p.parameter->shape()});
      }
    }
  }

  absl::Status OpenAdapter() {
    ASSIGN_OR_RETURN(adapter_, HuggingFaceCheckpoint::OpenAdapter(storage_, c_.adapter));
    RETURN_IF_ERROR(adapter_->Check(expected_of_adapter_));
    const std::vector<std::string> more = adapter_->Leftover(expected_of_adapter_);
    if (more.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(c_.adapter, " holds ", more.size(),
                                            " tensors for which the model has no adapter, first ", more.front(),
                                            "; give the model that it was made for"));
  }

  // `part`: of a folder with several data sets of images, as MNIST calls them.
  absl::StatusOr<std::unique_ptr<SequenceSource>> OpenData(const std::string& path, const std::string& labels,
                                                           const char* part) {
    return setup_.source.model.images.has_value() ? OpenImages(path, labels, part) : OpenTokens(path, labels);
  }

  absl::StatusOr<std::unique_ptr<SequenceSource>> OpenImages(const std::string& path, const std::string& labels,
                                                             const char* part) {
    if (!labels.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--labels=", labels, " is of tokens, and ",
                                                     setup_.source.model.name,
                                                     " reads images, which have labels of their own; leave it out"));
    }
    if (c_.data_format != "auto" && c_.data_format != "idx") {
      return absl::InvalidArgumentError(absl::StrCat("--data_format=", c_.data_format, " is of tokens, and ",
                                                     setup_.source.model.name, " reads images; use idx"));
    }
    ImageDatasetOptions options{.path = path, .part = part, .input = *setup_.source.model.images};
    ASSIGN_OR_RETURN(options.normalization,
                     ReadImageNormalization(storage_, ConfigurationFolder(), options.input.channels));
    return ImageDataset::Open(storage_, options);
  }

  // Where config.json stands; empty: nowhere.
  std::string ConfigurationFolder() const {
    if (c_.model_config.empty()) return c_.init;
    if (c_.model_config.find('=') != std::string::npos) return "";
    const size_t slash = c_.model_config.rfind('/');
    return slash == std::string::npos ? "." : c_.model_config.substr(0, slash + 1);
  }

  absl::StatusOr<std::unique_ptr<SequenceSource>> OpenTokens(const std::string& path, const std::string& labels) {
    DatasetOptions options;
    options.path = path;
    ASSIGN_OR_RETURN(options.format, ParseTokenFormat(c_.data_format));
    options.vocabulary = setup_.source.model.vocabulary;
    options.sequence_length = setup_.options.sequence_length;
    options.labels = labels;
    options.document_separator = c_.document_separator;
    options.verify_part = communicator_.rank();
    options.verify_parts = communicator_.size();
    return Dataset::Open(storage_, options);
  }

  // A file that was copied to each host may be an old one on some.
  absl::Status CheckSameFiles(const char* flag, const std::string& path, const absl::StatusOr<std::string>& identity) {
    RETURN_IF_ERROR(Agree(communicator_, identity.status()));
    ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGatherText(communicator_, *identity));
    const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& text) { return text != all[0]; });
    if (other == all.end()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(flag, "=", path, " differs between ranks: ", all[0], " on rank 0, ", *other,
                                            " on rank ", other - all.begin(), "; give every rank the same files"));
  }

  // Only rank 0 writes.
  absl::Status CheckOutputs() const {
    if (!first_) return absl::OkStatus();
    const FlagPath outputs[] = {{"--metrics", c_.metrics},
                                {"--trace", c_.trace},
                                {"--report", c_.report},
                                {"--dump_gradients", c_.dump_gradients}};
    RETURN_IF_ERROR(CheckNotInFolder(outputs, {"--export", c_.export_folder}));
    return CheckOutputPaths(outputs, InputPathsOf(c_));
  }

  // Outputs are opened before the first step: a path that cannot be written must not cost a day.
  absl::Status OpenOutputs() {
    if (!first_) return absl::OkStatus();
    RETURN_IF_ERROR(CheckExport(storage_, c_, setup_));
    if (!c_.metrics.empty()) {
      ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(storage_, c_.metrics, LineStreamMode::kReplace));
      metrics_.emplace(std::move(metrics));
    }
    if (!c_.trace.empty()) {
      ASSIGN_OR_RETURN(trace_, storage_.Create(c_.trace));
    }
    if (!c_.report.empty()) {
      ASSIGN_OR_RETURN(RunReport report, RunReport::Open(storage_, c_.report));
      report_.emplace(std::move(report));
    }
    return absl::OkStatus();
  }

  // Of this rank, with a warning where it has more threads than cores.
  std::string DeviceText() {
    const absl::StatusOr<const Backend*> backend = FindBackend(machine_.device);
    if (machine_.device != "cpu" && backend.ok()) return (*backend)->DeviceName();
    if (std::string warning = ThreadsWarning(machine_.threads, share_); !warning.empty()) {
      warnings_.push_back(std::move(warning));
    }
    return absl::StrCat(machine_.threads, " compute threads on ", share_.text);
  }

  std::string MachineText() {
    std::string text = absl::StrCat("reprise " REPRISE_VERSION ": ", communicator_.size(), " ranks on ",
                                    absl::StrJoin(communicator_.hosts(), ", "), "; rank 0: ", DeviceText());
    if (!leftover_.empty()) {
      warnings_.push_back(absl::StrCat(c_.init, " holds ", leftover_.size(),
                                       " tensors that the model does not use, first ", leftover_.front()));
    }
    if (!rounded_.empty()) {
      absl::StrAppend(&text, "\nnote: ", c_.init, " holds ", rounded_.size(),
                      " tensors in F64, rounded to the nearest float32, first ", rounded_.front());
    }
    for (const std::string& warning : warnings_) absl::StrAppend(&text, "\nwarning: ", warning);
    return text;
  }

  absl::Status MakeJob(Progress* progress) {
    if (c_.checkpoint == "auto") {
      progress->Note("measuring kernels and transfers for the plan, unless an earlier run has");
      const TimesCache cache(storage_, CacheFolder(c_.profile_cache));
      ASSIGN_OR_RETURN(MachineTimes times, CachedMachineTimes(cache, setup_.source.model, setup_.options, machine_,
                                                              communicator_.size(), communicator_));
      setup_.options.times = std::make_shared<const MachineTimes>(std::move(times));
    }
    ASSIGN_OR_RETURN(job_, TrainingJob::Create(setup_.source.model, setup_.options, machine_, communicator_));
    const ParameterSource random = RandomParameters(static_cast<uint64_t>(c_.seed));
    return job_->SetParameters([&](const Parameter& parameter, int64_t first, absl::Span<float> out) {
      const bool of_adapter = IsOfAdapter(setup_.source.model, parameter);
      const HuggingFaceCheckpoint* folder = of_adapter ? adapter_.get() : checkpoint_.get();
      if (folder == nullptr) return random(parameter, first, out);
      return folder->ReadRange(parameter.name(), parameter.shape(), first, out);
    });
  }

  absl::Status WriteRunLine() {
    absl::Status status;
    if (first_ && !c_.dump_gradients.empty()) {
      absl::StatusOr<std::unique_ptr<SafetensorsWriter>> writer = OpenGradientFile(storage_, c_.dump_gradients, *job_);
      status = writer.status();
      if (status.ok()) gradients_ = *std::move(writer);
    }
    RETURN_IF_ERROR(Agree(communicator_, status));
    if (!first_) return absl::OkStatus();
    const JsonObject run = RunObject(c_, job_->plan(), communicator_, machine_, warnings_);
    if (metrics_.has_value()) EndAloneUnlessOk(metrics_->WriteRun(run), communicator_);
    if (report_.has_value()) EndAloneUnlessOk(report_->SetRun(run), communicator_);
    return absl::OkStatus();
  }

  absl::StatusOr<StepMetrics> TrainStep(int64_t step, Progress* progress) {
    const auto start = std::chrono::steady_clock::now();
    StepInput input{.seed = static_cast<uint64_t>(c_.seed), .step = step, .learning_rate = LearningRate(rate_, step)};
    absl::Status filled;
    for (int64_t m = 0; m < c_.accumulation && filled.ok(); ++m) {
      Batch batch = job_->batch(static_cast<int>(m));
      filled = batches_->Fill(step, communicator_.rank(), m, &batch);
      input.counted_labels += batch.counted;
      if (m == 0) input.first_sequence = batch.first_sequence;
    }
    input.sequence_stride = communicator_.size() * c_.micro_batch.sequences;
    EndAloneUnlessOk(filled, communicator_);
    const absl::StatusOr<StepResult> result = job_->Step(input);
    // A number that is not finite is seen by every rank, and a peer's failure too; anything else by this rank alone.
    if (ExitCodeFor(result.status()) == kExitConfiguration) EndAloneUnlessOk(result.status(), communicator_);
    RETURN_IF_ERROR(result.status());
    const StepResult& r = *result;
    if (!r.updated && !said_no_labels_) {
      said_no_labels_ = true;
      progress->Note(absl::StrCat("warning: step ", step + 1, " had no label that counts; nothing was updated"));
    }
    StepMetrics m;
    m.step = step + 1;
    m.loss = r.loss;
    m.gradient_norm = r.gradient_norm;
    m.learning_rate = input.learning_rate;
    m.tokens = batches_->sequences_per_step() * setup_.options.sequence_length;
    m.step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    m.tokens_per_second = static_cast<double>(m.tokens) / m.step_seconds;
    m.peak_device_bytes = r.peak_device_bytes;
    m.predicted_peak_device_bytes = job_->plan().schedule.device_bytes;
    m.host_bytes = r.peak_host_bytes;
    m.recompute_fraction = r.forward_seconds > 0 ? r.recompute_seconds / r.forward_seconds : 0;
    m.recomputed_flops = r.recomputed_flops;
    m.gathers = r.gathers;
    m.offloaded_bytes = r.offloaded_bytes;
    m.exposed_communication_seconds = r.exposed_communication_seconds;
    m.exposed_transfer_seconds = r.exposed_transfer_seconds;
    if (const int64_t peak = PeakResidentBytes(); peak > 0) m.peak_resident_bytes = peak;
    last_count_ = r.counted_labels;
    return m;
  }

  absl::Status WriteGradients() {
    return WriteGradientFile(gradients_.get(), *job_, last_count_ > 0 ? 1.0 / static_cast<double>(last_count_) : 0.0);
  }

  // Of the last step, on rank 0.
  absl::Status TakeTrace(int64_t step) {
    if (trace_ == nullptr && !report_.has_value()) return absl::OkStatus();
    const std::string text =
        TraceJson(job_->plan(), job_->timeline(), {.program = "reprise " REPRISE_VERSION, .step = step});
    if (report_.has_value()) RETURN_IF_ERROR(report_->SetTrace(text));
    if (trace_ == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(trace_->Append({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
    return trace_->Finish();
  }

  TrainConfiguration c_;
  Communicator& communicator_;
  const bool first_;
  Storage& storage_ = PosixStorage();
  JobSetup setup_;
  std::unique_ptr<SequenceSource> data_;
  std::unique_ptr<SequenceSource> validation_;
  std::optional<TrainingBatches> batches_;
  std::optional<ValidationBatches> validation_batches_;
  std::unique_ptr<HuggingFaceCheckpoint> checkpoint_;
  std::vector<ExpectedTensor> expected_;  // of checkpoint_
  std::vector<ExpectedTensor> expected_of_adapter_;
  std::unique_ptr<HuggingFaceCheckpoint> adapter_;
  std::vector<std::string> leftover_;  // tensors that the model does not use
  std::vector<std::string> rounded_;   // in F64
  LearningRateSettings rate_;
  int64_t steps_ = 0;
  CoreShare share_;  // of the host's cores
  MachineOptions machine_;
  std::optional<MetricsWriter> metrics_;
  std::unique_ptr<AtomicFile> trace_;
  std::optional<RunReport> report_;
  std::vector<std::string> warnings_;
  std::unique_ptr<SafetensorsWriter> gradients_;
  std::unique_ptr<TrainingJob> job_;
  RunTable table_;
  int64_t last_count_ = 0;
  bool said_no_labels_ = false;
};

}  // namespace

absl::Status RunTraining(const TrainConfiguration& configuration, Communicator& communicator) {
  return TrainingRun(configuration, communicator).Run();
}

}  // namespace reprise
