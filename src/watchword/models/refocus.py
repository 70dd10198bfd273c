"""Watch it twice (VRE): the first pass finds a key frame, the second reads the video outwards from it.

Shi et al., Watch It Twice: Video Captioning with a Refocused Video Encoder, ACM MM 2019, arXiv:1907.12905.

| paper | line |
|---|---|
| Eq. 2, 3: frames are means over locations, locations are means over frames | `time_step_means`, `locations_of` |
| Eq. 4 to 7: KBiGRU | `layers/recurrent.py` |
| Eq. 8, 9: how relevant each frame is to what the first pass read | `KeyFrameEncoder.relevance` |
| Eq. 10, 11: the most relevant is the key frame | `Refocus._key` |
| Eq. 12 to 16: two attentions | `Refocus.step`, `layers/attention.py` |
| Alg. 1: o1, o2 | `KeyFrameEncoder.first`, `KeyFrameEncoder.second` |
| Alg. 2: o is the first memory cell, half of every query, and the first input | `encode_passes`, `step` |
| Sec. 4.2: saved key frames | `Refocus.fix_key_frames` |
| Eq. 17 to 22 | `losses/refocus.py` |

Table 1's rows are the variants: `attention` (V^f + v^s, no encoder), `kbigru` (V^f), `kbigru_all` (with v^s and v^a),
`vre`. Ours is `bigru`, a plain bidirectional GRU in the place of KBiGRU. What is a stream's part (frames, locations,
sound) is told by `temporal`, `spatial`, `audio`.

Where we differ: biases of energies are left out, they cancel in the softmax; saved key frames are those of a frozen
copy of the encoder, so that a video that nobody saved has one too. Ours, and off unless asked for: features are first
projected (`projected_size`); the maps to h and o are normalised (`normalise`); while training the key frame is drawn,
so that others are tried (`training_key`); the second pass reads from the middle or from a random frame (`key`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.errors import WatchwordError
from watchword.layers.attention import (
    ProductAttention,
    flat_locations,
    masked_mean,
    never_empty,
    num_time_steps,
    time_step_means,
)
from watchword.layers.projection import Projection, accept_old_names
from watchword.layers.recurrent import BidirectionalGRU, GroupDropout, KeyFrameGRU, LSTMCell, linear
from watchword.models.model import Model, ModelConfig
from watchword.tensors import BOS, Memory, State, Step, Stream, Streams
from watchword.types import Diagnostics, Mark

# modules in checkpoints written before 0.2
RENAMED = {"watcher": "encoder", "project_places": "project_locations", "over_places": "over_locations"}


class RefocusConfig(ModelConfig):
    variant: Literal["attention", "bigru", "kbigru", "kbigru_all", "vre"] = "vre"  # Table 1; bigru: ours
    embedding_size: int = Field(512, ge=1)  # Sec. 4.2
    hidden_size: int = Field(512, ge=1)  # Sec. 4.2
    dropout: float = Field(0.5, ge=0, lt=1)  # Sec. 4.2: at the end of the decoder, nowhere else
    attention_size: int = Field(512, ge=1)  # ours: not stated
    projected_size: int = Field(0, ge=0)  # ours: features are first made this wide; 0: as they come
    normalise_projected: bool = False  # ours: then a layer norm of them, before the ReLU
    normalise: bool = False  # ours: layer norm before the tanh of Eq. 7, o1 and o2
    training_key: Literal["likeliest", "drawn"] = "likeliest"  # Eq. 11; ours: while training it may be drawn by alpha
    key: Literal["relevant", "middle", "random"] = "relevant"  # of the second pass: Eq. 11; ours, as controls: others
    temporal: str = ""  # the stream whose frames are read; "": the first visual one
    spatial: str = ""  # ... whose locations are attended to; "": the last; "none": no such
    audio: str = "audio"  # the audio stream, where there is one

    @property
    def reads_locations(self) -> bool:
        return self.variant not in ("bigru", "kbigru")

    @property
    def reads_audio(self) -> bool:
        return self.variant in ("kbigru_all", "vre")


class Refocus(Model):
    Config = RefocusConfig
    passes: Tensor
    fixed: Tensor

    def __init__(self, config: RefocusConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        self.settings = config
        self.temporal, self.spatial, self.audio = roles(config, widths)
        hidden, encoded = config.hidden_size, config.variant != "attention"
        sound = widths[self.audio] if self.audio else 0
        self.encoder = KeyFrameEncoder(config, widths[self.temporal], sound)
        frame_size, sound_size = self.encoder.frame_size, self.encoder.sound_size
        query_size = 2 * hidden if encoded else hidden  # [o, h]
        self.over_frames = ProductAttention(query_size, frame_size, config.attention_size)
        location_size = 0
        if self.spatial:
            self.project_locations, location_size = projection(widths[self.spatial], config)
            self.over_locations = ProductAttention(query_size, location_size, config.attention_size)
        self.cell = LSTMCell(frame_size + location_size + sound_size + config.embedding_size, hidden)
        if encoded:  # o stands where a word's embedding does
            same = hidden == config.embedding_size
            self.first_input = nn.Identity() if same else nn.Linear(hidden, config.embedding_size)
        if config.variant == "vre":
            self.chooser = KeyFrameEncoder(config, widths[self.temporal], sound).requires_grad_(False)
        self.register_buffer("passes", torch.tensor(2 if config.variant == "vre" else 1))
        self.register_buffer("fixed", torch.tensor(False))
        self.dropout = GroupDropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        accept_old_names(self, RENAMED)

    # --- the contract ------------------------------------------------------------------------------------------------

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory, states, _, _ = self.encode_passes(streams)
        return memory, {name: tensor[:, -1:] for name, tensor in states.items()}  # the last pass is the one that counts

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        embedded = self.embedding(words)  # (B, S, E)
        query = state["hidden"]
        if "video" in state:
            query = torch.cat([state["video"], query], -1)  # [o, h]
            embedded = torch.where((words == BOS).unsqueeze(-1), self.first_input(state["video"]), embedded)
        context, weights = self.over_frames(query, *(memory[f"frames.{part}"] for part in ("keys", "values", "mask")))
        inputs = [context]  # Eq. 14 to 16
        attention = {f"temporal:{self.temporal}": _in_full(weights.unsqueeze(-1), memory["frames.share"])}
        if self.spatial:
            parts = (memory[f"locations.{part}"] for part in ("keys", "values", "mask"))
            context, weights = self.over_locations(query, *parts)
            inputs.append(context)  # Eq. 12
            attention[f"spatial:{self.spatial}"] = _in_full(weights.unsqueeze(-2), memory["locations.share"])
        if self.audio:
            inputs.append(memory["sound"].unsqueeze(1).expand(-1, words.shape[1], -1))
        hidden, cell = self.cell(torch.cat([*inputs, embedded], -1), state["hidden"], state["cell"])
        return Step(self.dropout(hidden), state | {"hidden": hidden, "cell": cell}, attention)

    # --- the two passes ----------------------------------------------------------------------------------------------

    def encode_passes(self, streams: Streams, key: Tensor | None = None) -> tuple[Memory, State, Tensor, Tensor]:
        """Both passes at once (one where there is no second); `key`: the second one's key frames (B,), if not Eq. 11.

        Memory, and the states before the first word side by side, (B, passes, ...); then how relevant each frame is,
        log probabilities (B, F), and the last pass's key frame, (B,): what the refocusing loss and pictures ask for.
        """
        pooled, real = time_step_means(streams[self.temporal])
        sound = sound_of(streams[self.audio]) if self.audio else None
        frames, audio = self.encoder.project(self.feature_dropout(pooled), sound)
        memory = self._memory(streams, frames, real, audio)
        lengths = num_time_steps(real).clamp(min=1)
        middle = lengths // 2  # Alg. 1: in the middle at first
        relevance = never_empty(real).float().log().log_softmax(-1)  # nothing is known before the first pass
        if self.settings.variant == "attention":
            zero = frames.new_zeros(len(frames), 1, self.settings.hidden_size)
            return memory, {"hidden": zero, "cell": zero}, relevance, middle
        read, seen = self.encoder.first(frames, lengths, middle, audio)  # h1, o1
        passes, last = [seen], middle
        if int(self.passes) == 2:
            if bool(self.fixed):
                relevance = self.chooser.choose(pooled, real, sound)
            else:
                relevance = self.encoder.relevance(seen, frames, real)
            last = self._key(relevance, streams[self.temporal], lengths) if key is None else key
            passes.append(self.encoder.second(read, frames, lengths, last, audio))  # o2
        video = torch.stack(passes, 1)  # (B, passes, H)
        return memory, {"hidden": torch.zeros_like(video), "cell": video, "video": video}, relevance, last

    def _key(self, relevance: Tensor, frames: Stream, lengths: Tensor) -> Tensor:
        """The key frame of the second pass, (B,)."""
        if self.settings.key == "middle":
            return lengths // 2
        if self.settings.key == "random":
            return random_frames(frames, lengths)
        if self.training and not bool(self.fixed) and self.settings.training_key == "drawn":
            return torch.multinomial(relevance.exp(), 1).squeeze(1)
        return relevance.argmax(-1)  # Eq. 11

    def diagnostics(self, streams: Streams, caption: Tensor) -> Diagnostics:
        """Both key frames: the middle one, and the one that the first pass found most relevant (Eq. 11).

        A model of one pass (`kbigru`) starts in the middle of every video, which says nothing about this one.
        """
        if int(self.passes) < 2:
            return Diagnostics()
        times = streams[self.temporal].times[0]
        *_, key = self.encode_passes(streams)
        first = Mark("first_key_frame", float(times[int(self.middle_frames(streams)[0])]))
        return Diagnostics((first, Mark("key_frame", float(times[int(key[0])]))))

    def middle_frames(self, streams: Streams) -> Tensor:
        """The key frame of the first pass, (B,)."""
        return num_time_steps(streams[self.temporal].mask.any(-1)).clamp(min=1) // 2

    def use_one_pass(self) -> None:
        """From now on the first pass is the only one."""
        self._must_be_vre()
        self.passes.fill_(1)

    def use_two_passes(self) -> None:
        self._must_be_vre()
        self.passes.fill_(2)

    @contextmanager
    def shared_dropout(self, groups: int) -> Iterator[None]:
        """Within it so many equal parts of the captions of a video, side by side, have the same dropout masks."""
        self.dropout.groups = groups
        try:
            yield
        finally:
            self.dropout.groups = 1

    def fix_key_frames(self, restart: bool) -> None:
        """From now on the key frames are those that the weights choose now; with `restart` all else begins anew."""
        self._must_be_vre()
        chosen = self.chooser if bool(self.fixed) else self.encoder
        kept = {name: tensor.clone() for name, tensor in chosen.state_dict().items()}
        if restart:
            fresh = type(self)(self.settings, self.widths, self.num_words)
            self.load_state_dict(fresh.state_dict())
        self.chooser.load_state_dict(kept)
        self.passes.fill_(2)
        self.fixed.fill_(True)

    def _must_be_vre(self) -> None:
        if self.settings.variant != "vre":
            raise WatchwordError(
                f"refocus variant {self.settings.variant!r} has one pass and no key frame to select: "
                "train it with loss cross_entropy, or set model.variant=vre"
            )

    def _memory(self, streams: Streams, frames: Tensor, real: Tensor, audio: Tensor | None) -> Memory:
        mask = streams[self.temporal].mask
        memory = {
            "frames.values": frames,
            "frames.keys": self.over_frames.keys(frames),
            "frames.mask": real,
            "frames.share": _shares(mask, over=2),
        }
        if self.spatial:
            locations, there = locations_of(streams[self.spatial])
            locations = self.project_locations(self.feature_dropout(locations))
            memory |= {
                "locations.values": locations,
                "locations.keys": self.over_locations.keys(locations),
                "locations.mask": there,
                "locations.share": _shares(streams[self.spatial].mask, over=1),
            }
        if audio is not None:
            memory["sound"] = audio
        return memory


class KeyFrameEncoder(nn.Module):
    """What makes o1, the key frame and o2 of frames and sound (Alg. 1)."""

    def __init__(self, config: RefocusConfig, frame_width: int, sound_width: int) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.project_frames, self.frame_size = projection(frame_width, config)
        self.sound_size = 0
        if sound_width:
            self.project_sound, self.sound_size = projection(sound_width, config)
        if config.variant != "attention":
            reader = BidirectionalGRU if config.variant == "bigru" else KeyFrameGRU
            self.read = reader(self.frame_size, hidden, config.normalise)
            self.with_sound = linear(hidden + self.sound_size, hidden, config.normalise)  # W_a
        if config.variant == "vre":
            self.merge = linear(2 * hidden, hidden, config.normalise)  # W_m
            self.refocusing = ProductAttention(hidden, self.frame_size, config.attention_size)  # W_o, W_v, W_alpha

    def project(self, frames: Tensor, sound: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self.project_frames(frames), None if sound is None else self.project_sound(sound)

    def first(self, frames: Tensor, lengths: Tensor, key: Tensor, audio: Tensor | None) -> tuple[Tensor, Tensor]:
        """h1 and o1, both (B, H)."""
        seen = self.read(frames, lengths, key)
        return seen, self._join_audio(seen, audio)

    def relevance(self, video: Tensor, frames: Tensor, real: Tensor) -> Tensor:
        """log alpha, (B, F), of o1 (B, H)."""
        energies = self.refocusing.energies(video.unsqueeze(1), self.refocusing.keys(frames)).squeeze(1)  # Eq. 8
        return energies.masked_fill(~never_empty(real), float("-inf")).log_softmax(-1)  # Eq. 9

    def second(self, first: Tensor, frames: Tensor, lengths: Tensor, key: Tensor, audio: Tensor | None) -> Tensor:
        """o2, (B, H)."""
        again = self.read(frames, lengths, key)
        return self._join_audio(self.merge(torch.cat([first, again], -1)).tanh(), audio)

    @torch.no_grad()
    def choose(self, frames: Tensor, real: Tensor, sound: Tensor | None) -> Tensor:
        """The first pass on its own: log alpha of features as they come."""
        frames, audio = self.project(frames, sound)
        lengths = num_time_steps(real).clamp(min=1)
        return self.relevance(self.first(frames, lengths, lengths // 2, audio)[1], frames, real)

    def _join_audio(self, seen: Tensor, audio: Tensor | None) -> Tensor:
        return self.with_sound(seen if audio is None else torch.cat([seen, audio], -1)).tanh()


def roles(config: RefocusConfig, widths: Mapping[str, int]) -> tuple[str, str, str]:
    """Which stream is read frame by frame, which is attended to location by location, which is audio; "": none."""
    seen = [name for name in widths if name != config.audio]
    for role, wanted in (("temporal", config.temporal), ("spatial", config.spatial)):
        if wanted not in ("", "none", *widths):
            raise WatchwordError(f"model.{role} is {wanted!r}, the data's streams are {', '.join(widths)}")
    if not seen and not config.temporal:
        raise WatchwordError("refocus needs a visual stream beside the audio stream: add it to data.streams")
    temporal = config.temporal or seen[0]
    spatial = config.spatial or seen[-1]
    locations = config.reads_locations and spatial != "none"
    unread = [name for name in seen if name not in (temporal, spatial)]
    if unread:
        raise WatchwordError(
            f"refocus reads one stream's frames and one stream's locations, here {temporal} and {spatial}: drop "
            f"{', '.join(unread)} from data.streams, or choose with model.temporal and model.spatial"
        )
    reads_audio = config.reads_audio and config.audio in widths
    return temporal, spatial if locations else "", config.audio if reads_audio else ""


def projection(width: int, config: RefocusConfig) -> tuple[nn.Module, int]:
    """A map of features to a common size, or none, and the size that comes out."""
    size = config.projected_size
    if not size:
        return nn.Identity(), width
    return nn.Sequential(Projection(width, size, config.normalise_projected), nn.ReLU()), size


def locations_of(stream: Stream) -> tuple[Tensor, Tensor]:
    """v^s, the mean over the frames of each location (Eq. 3): (B, N, D), and which locations are real: (B, N)."""
    return torch.einsum("bfnd,bfn->bnd", stream.values, _shares(stream.mask, over=1)), stream.mask.any(1)


def random_frames(stream: Stream, lengths: Tensor) -> Tensor:
    """One of each video's frames, (B,): always the same one, drawn by the digits of its first feature vector."""
    digits = stream.values[:, 0, 0].double().sum(-1) * 1e4
    return ((digits - digits.floor()) * lengths).long().clamp(max=lengths - 1)


def sound_of(stream: Stream) -> Tensor:
    """v^a, one vector a video: (B, D)."""
    return masked_mean(*flat_locations(stream))


def _shares(mask: Tensor, over: int) -> Tensor:
    """What each location weighs in a mean over an axis of (B, F, N); 0 where nothing is real."""
    weights = mask.float()
    return weights / weights.sum(over, keepdim=True).clamp(min=1)


def _in_full(weights: Tensor, share: Tensor) -> Tensor:
    """Attention over means, as what it is over that which they are means of: (B, S, F, N)."""
    return weights.detach() * share.unsqueeze(1)
