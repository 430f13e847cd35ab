from .blocks import *
from .losses import *
from .meters import *
