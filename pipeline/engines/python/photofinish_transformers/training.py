"""Training by a loop of one's own, as Transformers' documentation writes it for PyTorch."""

from photofinish_pytorch.device import Place
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.training import Training
from photofinish_transformers.network import Network
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Boundary, Optimizer


class Loop(Training):
    """Forget the gradients, go forward and backward with each part of the batch, let the optimiser
    move."""

    _network: Network

    def __init__(
        self,
        graph: Graph,
        settings: Optimizer,
        network: Network,
        parts: int,
        maker: Maker,
        place: Place,
        boundary: Boundary = Boundary.STEP,
        foreach: bool | None = None,
    ) -> None:
        super().__init__(
            graph, settings, network, network, maker, place, boundary, foreach, passes=parts
        )
