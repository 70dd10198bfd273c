"""VGGish: 128 numbers for 0.96 s of sound. Hershey et al. 2017, arXiv:1609.09430. Weights from the user's file.

No registry package carries the weights. The file `vggish-10086976.pth` of torchvggish's releases fits: its names are
`features.N` and `embeddings.N`, which are ours too. The 8-bit PCA of the AudioSet release is not applied: captioners
take the 128 numbers as they are.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from watchword.backbones.mel import MelConfig, log_mel_patches, patch_times
from watchword.errors import WatchwordError

MEL = MelConfig(log_offset=0.01, patch_step=96)  # windows that do not overlap
WIDTHS: tuple[tuple[int, ...], ...] = ((64,), (128,), (256, 256), (512, 512))  # a pooling after each group
VECTOR_SIZE = 128


class Vggish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 1
        for group in WIDTHS:
            for wider in group:
                layers += [nn.Conv2d(width, wider, 3, padding=1), nn.ReLU(inplace=True)]
                width = wider
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.embeddings = nn.Sequential(
            nn.Linear(width * 6 * 4, 4096), nn.ReLU(inplace=True),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True),
            nn.Linear(4096, VECTOR_SIZE), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, patches: Tensor) -> Tensor:  # (F, 96, 64) -> (F, 128)
        maps = self.features(patches.unsqueeze(1))  # (F, 512, 6, 4)
        return self.embeddings(maps.permute(0, 2, 3, 1).flatten(1))  # TensorFlow's order: channels last

    @torch.inference_mode()
    def hear(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """(samples,) in -1..1, mono, 16 kHz -> vectors (F, 128), times (F,): none where there is less than a window."""
        parts = [self(patches) for patches in log_mel_patches(samples, MEL)]
        vectors = torch.cat(parts) if parts else samples.new_empty(0, VECTOR_SIZE)
        return vectors, patch_times(len(samples), MEL)


def from_state(state: Mapping[str, Tensor]) -> Vggish:
    """With the weights of a user's checkpoint, already read. Names that are not the network's (the PCA) are left out."""
    with torch.device("meta"):  # 72 million numbers that need no random start
        network = Vggish()
    wanted = network.state_dict()
    for name, tensor in wanted.items():
        found = tuple(state[name].shape) if name in state else "nothing"
        if found != tuple(tensor.shape):
            raise WatchwordError(
                f"not a VGGish checkpoint: {name} should be {tuple(tensor.shape)}, found {found}; "
                "take vggish-10086976.pth of torchvggish's releases"
            )
    network.load_state_dict({name: state[name].float() for name in wanted}, assign=True)
    return network.eval().requires_grad_(requires_grad=False)
