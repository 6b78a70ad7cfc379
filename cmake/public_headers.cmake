# The public headers: what a program or a plug-in outside this tree may include, as "reprise/<path>", and what is
# installed. All others are internal and may change at any time. Each group has a header of its own that includes it.

# reprise/model.h: to write a model.
set(REPRISE_MODEL_HEADERS
    runtime/graph/tensor.h
    runtime/model/block.h
    runtime/model/model_config.h
    runtime/model/plugin.h
    runtime/model/registry.h)

# reprise/operation.h: to write an operation.
set(REPRISE_OPERATION_HEADERS
    runtime/graph/gradient.h
    runtime/tensor/access.h
    runtime/tensor/kernel.h
    runtime/tensor/operation.h)

# reprise/training.h: to train a model in a program of one's own.
set(REPRISE_TRAINING_HEADERS
    collectives/communicator.h
    models/registry.h
    runtime/snapshot/huggingface.h
    runtime/snapshot/read_model_config.h
    runtime/train/learning_rate.h
    runtime/train/parameter_source.h
    runtime/train/training_job.h)

# Included one by one where they are wanted: MPI's header, and macros without a prefix.
set(REPRISE_SINGLE_HEADERS
    base/check.h
    base/status_macros.h
    collectives/mpi_communicator.h)

# What the headers above include: plain data that they hand out, and what that is made of.
set(REPRISE_INCLUDED_HEADERS
    base/flat_json.h
    device/completion.h
    device/device.h
    offload/host_store.h
    runtime/fsdp/sharding.h
    runtime/fsdp/unit.h
    runtime/graph/data_kind.h
    runtime/graph/graph.h
    runtime/graph/routine.h
    runtime/graph/saved_sets.h
    runtime/model/checkpoint_options.h
    runtime/model/program.h
    runtime/plan/machine_times.h
    runtime/plan/plan.h
    runtime/plan/profile.h
    runtime/schedule/optimizer_settings.h
    runtime/schedule/schedule.h
    runtime/schedule/step.h
    runtime/schedule/timeline.h
    runtime/snapshot/safetensors.h
    runtime/snapshot/storage.h
    runtime/tensor/attributes.h
    runtime/tensor/bfloat16.h
    runtime/tensor/kernel_set.h
    runtime/tensor/types.h
    runtime/train/batch.h
    runtime/train/job_plan.h)

set(REPRISE_PUBLIC_HEADERS
    ${REPRISE_MODEL_HEADERS} ${REPRISE_OPERATION_HEADERS} ${REPRISE_TRAINING_HEADERS} ${REPRISE_SINGLE_HEADERS}
    ${REPRISE_INCLUDED_HEADERS})
