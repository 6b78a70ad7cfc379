"""CUDA's own libraries, which are too large to travel: where they are on a machine, and in which version.

Both ends use it: tests/gpu/pack writes down what a build was linked with, tests/gpu/run compares what it finds.
"""
import ctypes
import importlib.metadata
import pathlib

# Python's distributions of CUDA 13, and the library of each that counts here.
DISTRIBUTIONS = {
    "nvidia-cublas": "libcublasLt.so.13",
    "nvidia-cuda-runtime": "libcudart.so.13",
    "nvidia-nccl-cu13": "libnccl.so.2",
    "nvidia-cudnn-cu13": "libcudnn.so.9",
}
USUAL_FOLDERS = ("/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu")
PREFIXES = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libnvJitLink", "libnvidia")


def is_cudas(name):
    return name.startswith(PREFIXES)


def folder_of(distribution):
    """The folder of an installed distribution's shared libraries, or None."""
    try:
        files = importlib.metadata.distribution(distribution).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    library = next((f for f in files if f.name == DISTRIBUTIONS[distribution]), None)
    folder = pathlib.Path(library.locate()).parent if library else None
    return folder if folder and folder.is_dir() else None


def find(extra_folders=()):
    """{library: path} of those of CUDA's libraries that are here, Python's packages first."""
    found = {}
    for distribution, library in DISTRIBUTIONS.items():
        folders = [folder_of(distribution), *extra_folders, *USUAL_FOLDERS]
        path = next((pathlib.Path(f) / library for f in folders if f and (pathlib.Path(f) / library).exists()), None)
        if path:
            found[library] = path
    return found


def _number(library, function, of_result):
    if of_result:
        getattr(library, function).restype = ctypes.c_size_t
        return getattr(library, function)()
    number = ctypes.c_int()
    return number.value if getattr(library, function)(ctypes.byref(number)) == 0 else None


def version(path):
    """The version that a library itself tells, as (major, minor, patch), or None. None of these needs a driver."""
    name = pathlib.Path(path).name
    try:
        library = ctypes.CDLL(str(path))
        if name.startswith("libcublasLt"):
            return _parts(_number(library, "cublasLtGetVersion", True), 10000)
        if name.startswith("libcudnn"):
            return _parts(_number(library, "cudnnGetVersion", True), 10000)
        if name.startswith("libnccl"):
            return _parts(_number(library, "ncclGetVersion", False), 10000)
        if name.startswith("libcudart"):
            number = _number(library, "cudaRuntimeGetVersion", False)
            return (number // 1000, number % 1000 // 10, 0)
    except (OSError, AttributeError, TypeError):
        return None
    return None


def _parts(number, major):
    return (number // major, number % major // 100, number % 100)


def suits(here, built_with):
    """Whether a library serves a program that was built with another version of it: same major, not older."""
    return here is not None and here[0] == built_with[0] and tuple(here[:2]) >= tuple(built_with[:2])
