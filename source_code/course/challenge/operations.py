"""The operations that a submission's graphs may consist of, and what to do instead of the others."""

ARITHMETIC = """
Abs Acos Acosh Add AddN AddV2 All Any ApproximateEqual ArgMax ArgMin Asin Asinh Atan Atan2 Atanh BatchMatMul
BatchMatMulV2 BatchMatMulV3 BatchToSpaceND BiasAdd Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs
BroadcastGradientArgs BroadcastTo Cast Ceil CheckNumerics ClipByValue Concat ConcatV2 Const Cos Cosh Cross Cumprod
Cumsum CumulativeLogsumexp DepthToSpace Diag DiagPart Digamma Div DivNoNan Einsum Elu EnsureShape Equal Erf Erfc Erfinv
Exp ExpandDims Expm1 Fill Floor FloorDiv FloorMod Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN Inv
Invert InvertPermutation IsFinite IsInf IsNan L2Loss LRN LeakyRelu LeftShift Less LessEqual Lgamma LinSpace Log Log1p
LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Max Maximum Mean Min Minimum
MirrorPad Mod Mul MulNoNan Neg NoOp NotEqual OneHot OnesLike Pack Pad PadV2 Placeholder Pow PreventGradient Prod Range
Rank RealDiv Reciprocal Relu Relu6 Reshape Reverse ReverseSequence ReverseV2 RightShift Rint Roll Round Rsqrt ScatterNd
SegmentMean SegmentSum Select SelectV2 Selu Shape ShapeN Sigmoid Sign Sin Sinh Size Slice Softmax
SoftmaxCrossEntropyWithLogits Softplus Softsign SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits Split
SplitV Sqrt Square SquaredDifference Squeeze StopGradient StridedSlice Sub Sum Tan Tanh TensorScatterAdd
TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate Tile TopK TopKV2 Transpose TruncateDiv
TruncateMod Unpack UnsortedSegmentMax UnsortedSegmentSum Where Xdivy Xlog1py Xlogy ZerosLike
Assert EmptyTensorList TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
TensorListPopBack TensorListPushBack TensorListReserve TensorListResize TensorListSetItem TensorListStack
StatelessMultinomial StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetAlg
StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2
StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessSampleDistortedBoundingBox StatelessShuffle
StatelessTruncatedNormal StatelessTruncatedNormalV2
"""
NETWORKS = """
AvgPool Conv2D DepthwiseConv2dNative Dilation2D ExtractImagePatches FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3
MaxPool MaxPoolV2
AdjustContrastv2 AdjustHue AdjustSaturation CropAndResize HSVToRGB ImageProjectiveTransformV2
ImageProjectiveTransformV3 RGBToHSV ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate
"""
FACTORIZATIONS = frozenset(
    "Cholesky LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve MatrixSolveLs MatrixSquareRoot "
    "MatrixTriangularSolve Qr SelfAdjointEigV2 Svd".split()
)
ARITHMETIC, NETWORKS = frozenset(ARITHMETIC.split()) | FACTORIZATIONS, frozenset(NETWORKS.split())
READS = frozenset("ReadVariableOp ResourceGather ResourceGatherNd VariableShape".split())
ASSIGNS = frozenset(
    """
AssignAddVariableOp AssignSubVariableOp AssignVariableOp ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad
ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp ResourceApplyFtrl
ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyRMSProp
ResourceScatterAdd ResourceScatterSub ResourceScatterUpdate
""".split()
)
# What runs functions of the library, with the place of the first input that becomes the functions' first argument.
CALLS = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile"), 0),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), 1),
}
LOOPS = ("While", "StatelessWhile")
# The attributes beginning with _ that graphs keep: the others name devices, compilers, and gradients in Python.
KEPT = ("_lower_using_switch_merge", "_num_original_outputs", "_stateful_parallelism")

# What to do instead, by the beginning of an operation's name.
ADVICE = {
    ("PyFunc", "EagerPyFunc"): "it would start Python on the ranks: write it in TensorFlow's operations",
    ("Random", "Multinomial", "ParameterizedTruncatedNormal", "TruncatedNormal", "StatefulRandom", "Stateful", "Rng"): (
        "its random numbers cannot be repeated: draw them in `augment` with tf.random.stateless_uniform(shape, key) "
        "and its like; Dropout layers and Keras's augmentation layers draw such numbers, too"
    ),
    ("ReadFile", "MatchingFiles", "WriteFile", "Restore", "Save", "Decode", "WholeFileReader"): (
        "it works with files: only the harness reads the data"
    ),
    ("Print", "StringFormat"): "it prints or writes files: look at values before you hand them over",
    ("VarHandle", "Variable", "Queue", "Stack", "Barrier", "MutableHash", "HashTable", "Table"): (
        "it would keep values of its own between steps: use the model's and the optimizer's variables"
    ),
    ("Conv", "MaxPoolGrad", "AvgPoolGrad", "FusedBatchNormGrad", "ReluGrad"): (
        "no gradient is taken but the harness's own, and no network runs between gradients and weights"
    ),
    ("SymbolicGradient",): "no gradient is taken but the harness's own",
}
OTHER_ADVICE = "it is not among those that ranks carry out: write it with others (`ddl challenge rules`)"
DATA_ADVICE = "a pipeline of data would run beside the harness's: take the images that the function is given"


def advice(op: str) -> str:
    """Return what to do instead of an operation that is refused."""
    if "Dataset" in op or "Iterator" in op:
        return DATA_ADVICE
    return next((text for starts, text in ADVICE.items() if op.startswith(starts)), OTHER_ADVICE)
