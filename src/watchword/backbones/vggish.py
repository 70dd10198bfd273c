"""VGGish: 128 numbers for 0.96 s of sound. Hershey et al. 2017, arXiv:1609.09430. Weights from the user's file.

No registry package carries the weights. The file `vggish-10086976.pth` of torchvggish's releases fits: its names are
`features.N` and `embeddings.N`, which are ours too. The 8-bit PCA of the AudioSet release is not applied: captioners
take the 128 numbers as they are.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.backbones.blocks import Checkpoint, Convolution, frozen
from watchword.backbones.formats import Tensors
from watchword.backbones.mel import Heard, MelConfig, log_mel_patches, patch_times

MEL = MelConfig(log_offset=0.01, patch_step=96)  # windows that do not overlap
LAYERS = (  # place in the checkpoint, outputs; a pooling stands after 0, 3, 8 and 13, and takes a place of its own
    (0, 64),
    (3, 128),
    (6, 256),
    (8, 256),
    (11, 512),
    (13, 512),
)
POOLED = (0, 3, 8, 13)
VECTOR_SIZE = 128


class Vggish(nn.Module):
    """Sound to windows; weights from `load_user_weights(path)`."""

    mel = MEL

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        own = {name: tensor for name, tensor in tensors.items() if not name.startswith("pproc.")}  # the PCA
        checkpoint = Checkpoint(own, "vggish")
        self.layers = nn.ModuleDict()
        width = 1
        for place, wider in LAYERS:
            weight = checkpoint.take(f"features.{place}.weight", wider, width, 3, 3)
            bias = checkpoint.take(f"features.{place}.bias", wider)
            self.layers[str(place)] = Convolution(weight, bias, padding=1, activation="relu")
            width = wider
        self.embeddings = nn.ModuleList(
            [
                checkpoint.linear("embeddings.0", 4096, width * 6 * 4),
                checkpoint.linear("embeddings.2", 4096, 4096),
                checkpoint.linear("embeddings.4", VECTOR_SIZE, 4096),
            ]
        )
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, patches: Tensor) -> Tensor:  # (F, 96, 64) -> (F, 128)
        maps = patches.unsqueeze(1)
        for place, _ in LAYERS:
            maps = self.layers[str(place)](maps)
            if place in POOLED:
                maps = functional.max_pool2d(maps, 2)
        vectors = maps.permute(0, 2, 3, 1).flatten(1)  # (F, 6 * 4 * 512): channels last, as in TensorFlow
        for layer in self.embeddings:
            vectors = functional.relu(layer(vectors))
        return vectors

    def hear(self, samples: Tensor) -> Heard:
        """(samples,) in -1..1, mono, 16 kHz."""
        parts = [self(patches) for patches in log_mel_patches(samples, MEL)]
        vectors = torch.cat([samples.new_empty(0, VECTOR_SIZE), *parts])
        return Heard(vectors, vectors.new_empty(len(vectors), 0), patch_times(len(samples), MEL))
