"""The part `machine`: what is here, whether CUDA's libraries suit the build, and whether the program starts."""
import os
import platform
import sys

import cuda_libraries
import figures
from correctness import TINY
from training import Job, write_tokens

PIP_SECONDS = 100


def machine_part(session, carried, trainer):
    describe(session)
    if not session.standin:
        describe_gpu(session)
        libraries = cudas_libraries(session)
        folders = sorted({str(path.parent) for path in libraries.values()})
        carried.environment["REPRISE_CUDA_FOLDERS"] = ":".join(folders)
        check_versions(session, carried, libraries)
    check_libraries(session, carried)
    started = session.run(carried.reprise("--version"), 30, carried.environment)
    session.check("reprise starts", started.good, started.out.strip() if started.good else started.why())
    data = session.scratch / "first.u16"
    write_tokens(data, 100, 250)
    first = trainer.train(Job(TINY, data, 16, 2, steps=1))
    session.unusable = "" if first.good else first.done.why()
    session.check("a step runs", first.good, session.unusable)
    doctor = session.run(carried.reprise("doctor"), 30, carried.environment)
    session.fact("doctor", doctor.out.strip() if doctor.good else doctor.why())


def describe(session):
    session.fact("processor", next((line.split(":")[1].strip() for line in read("/proc/cpuinfo").splitlines()
                                    if line.startswith("model name")), platform.machine()))
    session.fact("cores", len(os.sched_getaffinity(0)))
    session.fact("memory_bytes", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    session.fact("system", next((line.split("=")[1].strip('"') for line in read("/etc/os-release").splitlines()
                                 if line.startswith("PRETTY_NAME=")), ""))
    session.fact("kernel", platform.release())
    session.fact("glibc", os.confstr("CS_GNU_LIBC_VERSION"))
    session.fact("python", sys.version.split()[0])


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def describe_gpu(session):
    """Name, memory and driver; the peak rate that MFU is of."""
    fields = ("name", "memory.total", "driver_version", "compute_cap", "pcie.link.gen.max", "pcie.link.width.max")
    done = session.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], 30)
    if not session.check("nvidia-smi finds a GPU", done.good and done.out.strip(), "" if done.good else done.why()):
        return
    gpus = [dict(zip(fields, map(str.strip, line.split(",")))) for line in done.out.strip().splitlines()]
    session.fact("gpus", gpus)
    session.record["gpu"] = gpus[0]["name"]
    session.record["peak_flops"] = figures.peak_flops(gpus[0]["name"])
    session.record["device_bytes"] = int(gpus[0]["memory.total"]) << 20
    session.note(f"{gpus[0]['name']}, driver {gpus[0]['driver_version']}")


def cudas_libraries(session):
    """{library: path}; what no package has is installed beside them, where pip can."""
    missing = [d for d, library in cuda_libraries.DISTRIBUTIONS.items() if library not in cuda_libraries.find()]
    if not missing:
        return cuda_libraries.find()
    target = session.scratch / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", target]
    installed = session.run([*pip, *missing], PIP_SECONDS)
    session.fact("pip", f"{', '.join(missing)}: {'installed' if installed.good else installed.why()}")
    folders = {path.parent for path in target.rglob("lib*.so.*")} if target.is_dir() else set()
    return cuda_libraries.find(sorted(folders))


def check_versions(session, carried, libraries):
    """Those that the build names must be here, of the same major version and not older."""
    here = {name: cuda_libraries.version(path) for name, path in libraries.items()}
    session.fact("cuda_libraries", {name: {"path": str(path), "version": here[name]}
                                    for name, path in libraries.items()})
    for name, built_with in carried.manifest["cuda_libraries"].items():
        if name.startswith("libcuda.so"):  # the driver's
            continue
        found = here.get(name)
        words = f"here {dotted(found)}, built with {dotted(built_with)}"
        session.check(f"{name} suits", name in libraries if built_with is None else
                      cuda_libraries.suits(found, tuple(built_with)), words)


def dotted(version):
    return ".".join(map(str, version)) if version else "none"


def check_libraries(session, carried):
    """Every library that the program and the CUDA part name is found, and the C library is new enough."""
    version = tuple(map(int, (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0.0").split()[1].split(".")[:2]))
    needed = tuple(carried.manifest["glibc"])
    session.check("glibc is new enough", version >= needed, f"here {dotted(version)}, needed {dotted(needed)}")
    part = "libreprise_cuda_standin.so" if session.standin else "libreprise_cuda.so"
    folder = carried.folder
    path = ":".join([f"{folder}/lib", carried.environment["REPRISE_CUDA_FOLDERS"], "/usr/local/nvidia/lib64"])
    done = session.run(["ldd", folder / "bin/reprise", folder / "bin/mpirun", folder / "lib" / part], 30,
                       {"LD_LIBRARY_PATH": path})
    lost = sorted({line.split()[0] for line in done.out.splitlines() if "not found" in line})
    why = ", ".join(lost) if done.good else done.why()
    session.check("every library is found", done.good and not lost, why)
