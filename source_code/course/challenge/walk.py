"""What a graph consists of, and which variables it reads and assigns, followed through the functions that it calls.

An operation that is not listed in `operations` is refused, wherever it stands, and so is an assignment to
a variable that its function may not change.
"""

from collections.abc import Sequence

from course.challenge.functions import Exported, Function, Problem, Variable
from course.challenge.operations import ARITHMETIC, ASSIGNS, CALLS, LOOPS, NETWORKS, READS, advice

FEW_BYTES = 64  # of a constant that is no array of data
KINDS = {"weight": "a trainable weight", "statistic": "a variable of the model", "state": "the optimizer's state"}
MAY = {
    "augment": "it may use only the images that it is given",
    "loss": "it may use only logits and labels",
    "forward_inference": "evaluations must leave the model as it is",
    "forward_training": "weights are changed by the optimizer alone, and only the model's variables are read",
    "update": "it takes gradients, weights and the optimizer's own state, and nothing that has seen images",
}


class Walk:
    """Goes through a graph and the functions that it calls, following each variable to where it is used."""

    def __init__(self, function: Function, exported: Exported, variables: Sequence[Variable]):
        self.function, self.exported, self.variables = function, exported, variables
        self.library = {each.signature.name: each for each in exported.graph.library.function}
        self.constant_bytes, self.data_bytes, self.largest, self._most = 0, 0, "", 0
        self.assigned: set[int] = set()
        self._seen: set[tuple] = set()
        self._inner = ""
        self._allowed = ARITHMETIC | READS | ASSIGNS | CALLS.keys() | (NETWORKS if function.learns else frozenset())

    def run(self):
        graph, fed = self.exported.graph, {name.partition(":")[0] for name in self.exported.inputs}
        if graph.library.gradient or graph.library.registered_gradients:
            self._refuse("it brings a gradient of its own (tf.custom_gradient), which the harness does not follow")
        if len(self.library) < len(graph.library.function):
            self._refuse("two functions in its graph have one name: build the submission again")
        resources = {}
        for name, number in self.exported.variables.items():
            if not isinstance(number, int) or not 0 <= number < len(self.variables):
                self._refuse("its graph names a variable that does not exist: build the submission again")
            resources[name.partition(":")[0]] = number
        for node in graph.node:
            if node.op == "Placeholder" and node.name not in fed | resources.keys():
                self._refuse(f"nothing is given to its input {node.name!r}: build the submission again", node)
        for node in graph.node:
            self._node(node)
        for name, inner in self.library.items():  # also what nothing calls
            self._inner = name
            for node in inner.node_def:
                self._node(node)
        self._inner = ""
        self._nodes(graph.node, resources)

    def _nodes(self, nodes, resources):
        resources = dict(resources)
        for node in nodes:
            if node.op == "Identity" and (number := _resource(node.input[0], resources)) is not None:
                resources[node.name] = number
        for node in nodes:
            held = [_resource(name, resources) for name in node.input if not name.startswith("^")]
            if node.op in CALLS:
                self._call(node, held)
            elif node.op in READS | ASSIGNS:
                if not held or held[0] is None:
                    self._refuse(f"{node.op} at {node.name!r} uses a variable that is not the submission's", node)
                for number in filter(lambda number: number is not None, held):
                    self._touch(node, number, node.op in ASSIGNS)
            elif node.op not in ("Identity", "NoOp") and any(number is not None for number in held):
                self._refuse(f"{node.op} at {node.name!r} takes a variable itself, not its value", node)
        return resources

    def _node(self, node):
        """Check what a node is, wherever it stands; count its constants."""
        if node.op not in self._allowed:
            self._refuse(f"the operation {node.op} (at {node.name!r}) is refused: {advice(node.op)}", node)
        if "_gradient_op_type" in node.attr and node.op not in CALLS and self.function.differentiated:
            self._refuse(
                f"{node.name!r} has a gradient of its own (tf.custom_gradient), which the harness does not follow: "
                "write it with operations whose own gradients are right, or tf.stop_gradient",
                node,
            )
        for name, value in node.attr.items():
            if value.HasField("tensor"):
                if node.op != "Const":
                    self._refuse(f"{node.op} at {node.name!r} carries data in {name!r}", node)
                size = value.tensor.ByteSize()
                self.constant_bytes += size
                self.data_bytes += size if size > FEW_BYTES else 0
                if size > self._most:
                    self._most, self.largest = size, node.name
            for each in _called(value):
                if node.op not in CALLS or each.name not in self.library:
                    self._refuse(f"{node.op} at {node.name!r} calls {each.name!r}, which is not in its graph", node)

    def _call(self, node, held):
        given = held[CALLS[node.op] :]
        for name in [each.name for value in node.attr.values() for each in _called(value)]:
            inner = self.library[name]
            arguments = [argument.name for argument in inner.signature.input_arg]
            pairs = zip(arguments, given, strict=False)
            resources = {argument: number for argument, number in pairs if number is not None}
            state = (name, tuple(sorted(resources.items())))
            if state in self._seen:
                continue
            self._seen.add(state)
            outer, self._inner = self._inner, name
            known = self._nodes(inner.node_def, resources)
            if node.op in LOOPS and len(inner.signature.output_arg) == len(arguments):  # the body, not the condition
                for argument, output in zip(arguments, inner.signature.output_arg, strict=True):
                    back = _resource(inner.ret[output.name], known)
                    if argument in resources and back != resources[argument]:
                        self._refuse(f"the loop at {node.name!r} takes another variable in each of its rounds", node)
            self._inner = outer

    def _touch(self, node, number, assigns):
        variable = self.variables[number]
        allowed = self.function.assigns if assigns else self.function.reads
        if variable.role in allowed:
            if assigns:
                self.assigned.add(number)
            return
        may, verb = MAY.get(self.function.name, "that is not for this function"), "assigns" if assigns else "reads"
        self._refuse(f"{node.op} at {node.name!r} {verb} {variable.name!r}, {KINDS[variable.role]}: {may}", node)

    def _refuse(self, what, node=None):
        raise Problem(self.function.name, what, node.name if node is not None else "", self._inner)


def _resource(name, resources):
    """Return the number of the variable that a tensor of this name is; None for any other."""
    return resources.get(name.partition(":")[0])


def _called(value):
    """Return the functions that an attribute of a node names."""
    return [value.func] if value.HasField("func") else value.list.func
