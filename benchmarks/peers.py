"""The shape of the work of two public code bases, over the network of `soft_attention` (`captioner.py`).

Both run one row a caption, one word a time, in float32, and project to the vocabulary after every word; the loop of a
training step ends with the longest caption of the batch, and a search sorts all continuations, runs to the longest
caption that is allowed and stops for nobody. They differ in where features are repeated and in what a search carries:

| | xmodaler (commit 28bd239, `SALSTMDecoder`) | ImageCaptioning.pytorch (commit 2253580, `AttModel`) |
|---|---|---|
| batch of captions | in any order, features of its video beside each | some captions of each of some videos |
| features are repeated | before they are projected | after they are projected |
| a word gives | logits, at the end one cross entropy | log probabilities, at the end one is gathered |
| caption that has ended | stays in the beam, masked | is put aside, its row goes on 1000 lower |
| search carries | chosen words and their log probabilities | log probabilities of all words at all steps |
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from watchword.models.soft_attention import SoftAttention
from watchword.tensors import BOS, EOS, PAD


@dataclass(frozen=True)
class Video:
    """What a step reads of the videos, one row a caption."""

    values: Tensor  # (R, F, H)
    keys: Tensor  # (R, F, A)

    def repeated(self, times: int) -> "Video":
        return Video(repeated(self.values, times), repeated(self.keys, times))


def repeated(tensor: Tensor, times: int) -> Tensor:
    """Each row some times, one after the other, copied."""
    return tensor.unsqueeze(1).expand(-1, times, *tensor.shape[1:]).reshape(-1, *tensor.shape[1:])


class Network(nn.Module):
    """The network of `soft_attention` with one stream, as torch's own modules; begins with the weights of `other`."""

    def __init__(self, other: SoftAttention) -> None:
        super().__init__()
        (stream,) = other.widths
        width, hidden, size = other.widths[stream], other.config.hidden_size, other.config.embedding_size
        attention = other.attend[stream]
        self.project = nn.Linear(width, hidden)
        self.key = nn.Linear(hidden, attention.from_query.out_features)
        self.query = nn.Linear(hidden, attention.from_query.out_features, bias=False)
        self.energy = nn.Linear(attention.from_query.out_features, 1, bias=False)
        self.first = nn.Linear(hidden, 2 * hidden)
        self.embedding = nn.Embedding(other.num_words, size)
        self.cell = nn.LSTMCell(size + hidden, hidden)
        self.deep = nn.Linear(2 * hidden + size, hidden)
        self.words = nn.Linear(hidden, other.num_words)
        self.dropout = nn.Dropout(other.config.dropout)
        self.load(other)

    @torch.no_grad()
    def load(self, other: SoftAttention) -> None:
        (stream,) = other.widths
        attention = other.attend[stream]
        for mine, theirs in (
            (self.project, other.project[stream]),
            (self.key, attention.from_value),
            (self.query, attention.from_query),
            (self.energy, attention.energy),
            (self.first, other.first_state),
            (self.embedding, other.embedding),
            (self.deep, other.deep_output),
            (self.words, other.to_words),
        ):
            mine.load_state_dict({name: theirs.state_dict()[name] for name in mine.state_dict()})
        into, over = other.cell.gates.weight.split([self.cell.input_size, self.cell.hidden_size], 1)
        self.cell.weight_ih.copy_(into)
        self.cell.weight_hh.copy_(over)
        self.cell.bias_ih.copy_(other.cell.gates.bias)
        self.cell.bias_hh.zero_()
        self.words.bias.add_(other.to_words.never_said.clamp(min=-1e9))

    def videos(self, features: Tensor) -> Video:
        values = self.dropout(self.project(features)).relu()
        return Video(values, self.key(values))

    def state(self, video: Video) -> tuple[Tensor, Tensor]:
        hidden, cell = self.first(video.values.mean(1)).tanh().chunk(2, -1)
        return hidden, cell

    def step(self, word: Tensor, video: Video, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        energies = self.energy(torch.tanh(video.keys + self.query(hidden).unsqueeze(1))).squeeze(-1)
        context = torch.bmm(energies.softmax(-1).unsqueeze(1), video.values).squeeze(1)
        said = self.dropout(self.embedding(word))
        hidden, cell = self.cell(torch.cat([said, context], -1), (hidden, cell))
        output = self.dropout(self.deep(torch.cat([hidden, context, said], -1)).tanh())
        return self.words(output), hidden, cell


class Xmodaler(Network):
    captions_side_by_side = 1

    def forward(self, features: Tensor, captions: Tensor) -> Tensor:
        """features (R, F, D), captions (R, T) of as many videos -> the mean loss of a word."""
        video = self.videos(features)
        hidden, cell = self.state(video)
        outputs = torch.zeros(len(captions), captions.shape[1] - 1, self.words.out_features)
        for time in range(captions.shape[1] - 1):
            if captions[:, time].max() == PAD:
                break
            outputs[:, time], hidden, cell = self.step(captions[:, time], video, hidden, cell)
        return nn.functional.cross_entropy(outputs.flatten(0, 1), captions[:, 1:].flatten(), ignore_index=PAD)

    @torch.no_grad()
    def beam(self, features: Tensor, width: int, longest: int) -> Tensor:
        """features (B, F, D) -> the best caption of each video, (B, longest)."""
        batch = len(features)
        video = self.videos(features)
        hidden, cell = self.state(video)
        words = torch.full((batch,), BOS)
        scores, going = torch.zeros(batch, 1, 1), torch.ones(batch, width, 1)
        captions: list[Tensor] = []
        log_probs: list[Tensor] = []
        for time in range(longest):
            beams = width if time else 1
            logits, hidden, cell = self.step(words, video, hidden, cell)
            word_scores = logits.log_softmax(-1).view(batch, beams, -1)
            candidates = scores + word_scores
            if time:
                going = going * (words.view(batch, beams) != EOS).float().unsqueeze(-1)
                word_scores = word_scores * going.expand_as(word_scores)
                before = scores.expand_as(candidates).contiguous()
                before[:, :, :EOS] = before[:, :, EOS + 1 :] = -999
                candidates = going * candidates + before * (1 - going)
            chosen_scores, chosen = candidates.view(batch, -1).sort(-1, descending=True)
            scores, chosen = chosen_scores[:, :width].unsqueeze(-1), chosen[:, :width]
            parent = torch.div(chosen, candidates.shape[-1], rounding_mode="floor")
            words = chosen - parent * candidates.shape[-1]
            states = (state.view(batch, beams, -1) for state in (hidden, cell))
            index = parent.unsqueeze(-1).expand(-1, -1, hidden.shape[-1])
            hidden, cell = (state.gather(1, index).flatten(0, 1) for state in states)
            going = going.gather(1, parent.unsqueeze(-1))
            captions = [one.gather(1, parent.unsqueeze(-1)) for one in captions] + [words.unsqueeze(-1)]
            said = word_scores.gather(1, parent.unsqueeze(-1).expand(-1, -1, word_scores.shape[-1]))
            log_probs = [one.gather(1, parent.unsqueeze(-1)) for one in log_probs]
            log_probs.append(said.gather(2, words.unsqueeze(-1)))
            words = words.flatten()
            if not time:
                video = video.repeated(width)
        return torch.cat(captions, -1)[:, 0]


class ImageCaptioning(Network):
    captions_side_by_side = 4

    def forward(self, features: Tensor, captions: Tensor) -> Tensor:
        """features (B, F, D), captions (R, T), R / B of each video -> the mean loss of a word."""
        video = self.videos(features)
        hidden, cell = (repeated(state, len(captions) // len(features)) for state in self.state(video))
        video = video.repeated(len(captions) // len(features))
        outputs = torch.zeros(len(captions), captions.shape[1] - 1, self.words.out_features)
        for time in range(captions.shape[1] - 1):
            if captions[:, time].sum() == PAD:
                break
            logits, hidden, cell = self.step(captions[:, time], video, hidden, cell)
            outputs[:, time] = logits.log_softmax(-1)
        real = (captions[:, 1:] != PAD).float()
        losses = -outputs.gather(2, captions[:, 1:].unsqueeze(2)).squeeze(2) * real
        return losses.sum() / real.sum()

    @torch.no_grad()
    def beam(self, features: Tensor, width: int, longest: int) -> Tensor:
        """features (B, F, D) -> the best caption of each video, (B, longest)."""
        batch, num_words = len(features), self.words.out_features
        video = self.videos(features)
        logits, *states = self.step(torch.full((batch,), BOS), video, *self.state(video))
        log_probs, video = logits.log_softmax(-1), video.repeated(width)
        captions = torch.zeros(batch, width, 0, dtype=torch.long)
        all_log_probs = torch.zeros(batch, width, 0, num_words)
        scores = torch.zeros(batch, width)
        done: list[list[tuple[float, Tensor, Tensor]]] = [[] for _ in range(batch)]
        for time in range(longest):
            log_probs = log_probs.view(batch, -1, num_words)
            scores = scores[:, : log_probs.shape[1]]
            candidates = scores.unsqueeze(-1) + log_probs
            index = candidates.view(batch, -1).sort(-1, descending=True).indices[:, :width]
            parent, words = index // num_words, index % num_words
            rows = (parent + torch.arange(batch).unsqueeze(-1) * log_probs.shape[1]).flatten()
            if time:
                captions = captions.gather(1, parent.unsqueeze(-1).expand_as(captions))
                all_log_probs = all_log_probs.gather(1, parent[..., None, None].expand_as(all_log_probs))
            captions = torch.cat([captions, words.unsqueeze(-1)], -1)
            scores = scores.gather(1, parent) + log_probs.flatten(1).gather(1, index)
            said = log_probs.gather(1, parent.unsqueeze(-1).expand(-1, -1, num_words))
            all_log_probs = torch.cat([all_log_probs, said.unsqueeze(2)], 2)
            states = [state[rows] for state in states]
            for row in range(batch):
                ended = words[row] == EOS if time + 1 < longest else torch.ones(width, dtype=torch.bool)
                for beam in ended.nonzero().flatten().tolist():
                    found = (float(scores[row, beam]), captions[row, beam].clone(), all_log_probs[row, beam].clone())
                    done[row].append(found)
                scores[row, ended] -= 1000
            logits, *states = self.step(words.flatten(), video, *states)
            log_probs = logits.log_softmax(-1).log_softmax(-1)  # theirs is normalised twice, the second for temperature
        best = [max(found, key=lambda one: one[0])[1] for found in done]
        return nn.utils.rnn.pad_sequence(best, batch_first=True, padding_value=PAD)


PEERS = {"xmodaler": Xmodaler, "ImageCaptioning.pytorch": ImageCaptioning}
