from torch import nn

__all__ = ["conv_bn_relu", "SmallNet"]


def conv_bn_relu(c_in, c_out, stride=1):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(inplace=True),
    )


class SmallNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(conv_bn_relu(1, 8), conv_bn_relu(8, 16, stride=2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(16, classes)

    def forward(self, x):
        x = self.pool(self.features(x))
        return self.classifier(x.flatten(1))
