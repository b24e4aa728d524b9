"""A vector register as a type of numba's: one float32 of each of WIDTH sequences.

Whether a loop over sequences becomes vector code depends on what a compiler can prove; with Lanes it
is written down. ``rows`` are the Lanes of a token's E numbers, a tuple as long as ``axes``, so that
E is known when the code is compiled and sums stay in registers. No operation may be reordered: the
same bits come out whenever this is compiled.
"""

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numpy.polynomial import Chebyshev, Polynomial

WIDTH = 16
POWERS = Chebyshev.interpolate(np.exp2, 5, [-0.5, 0.5]).convert(kind=Polynomial).coef  # to 2e-7
ROUNDER = 1.5 * 2.0**23  # a float32 of this size has no fraction: adding it rounds

VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
INTEGERS = ir.VectorType(ir.IntType(32), WIDTH)


class Lanes(types.Type):
    """numba's type of a vector register."""


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """How LLVM holds it."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, VECTOR)


lanes = Lanes("Lanes")


def _constant(number: float) -> ir.Constant:
    return ir.Constant(VECTOR, [number] * WIDTH)


def _fused(builder, x, y, z):
    """x·y + z, rounded once where the processor can."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    name = f"llvm.fmuladd.v{WIDTH}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y, z])


def _spread(builder, number):
    """One number on all lanes."""
    none = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, none, ir.Constant(INTEGERS, [0] * WIDTH))


def _place(context, builder, kind, array, at):
    """Address of array[*at, 0, …], from where the rest is contiguous."""
    array = context.make_array(kind)(context, builder, array)
    at = cgutils.unpack_tuple(builder, at)
    zeros = [ir.Constant(ir.IntType(64), 0)] * (kind.ndim - len(at))
    return cgutils.get_item_pointer(context, builder, kind, array, [*at, *zeros])


def _lanes_places(context, builder, kind, array, at, count):
    """Addresses of the ``count`` Lanes from array[*at, 0, …] on."""
    first = builder.bitcast(_place(context, builder, kind, array, at), VECTOR.as_pointer())
    return [builder.gep(first, [ir.Constant(ir.IntType(64), e)]) for e in range(count)]


# align=4: arrays start with a cache line, which is quicker, but nothing breaks where one does not.


@intrinsic
def load(_, array, at):
    """array[*at, :] as Lanes."""

    def emit(context, builder, signature, args):
        (place,) = _lanes_places(context, builder, array, *args, 1)
        return builder.load(place, align=4)

    return lanes(array, at), emit


@intrinsic
def store(_, array, at, value):
    """array[*at, :] = value."""

    def emit(context, builder, signature, args):
        (place,) = _lanes_places(context, builder, array, *args[:2], 1)
        builder.store(args[2], place, align=4)
        return context.get_dummy_value()

    return types.void(array, at, value), emit


@intrinsic
def rows(_, array, at, axes):
    """array[*at, e, :] for every e."""

    def emit(context, builder, signature, args):
        places = _lanes_places(context, builder, array, *args[:2], axes.count)
        loaded = [builder.load(place, align=4) for place in places]
        return context.make_tuple(builder, signature.return_type, loaded)

    return types.UniTuple(lanes, axes.count)(array, at, axes), emit


@intrinsic
def put(_, array, at, value):
    """array[*at, e, :] = value_e."""

    def emit(context, builder, signature, args):
        places = _lanes_places(context, builder, array, *args[:2], value.count)
        for place, each in zip(places, cgutils.unpack_tuple(builder, args[2]), strict=True):
            builder.store(each, place, align=4)
        return context.get_dummy_value()

    return types.void(array, at, value), emit


@intrinsic
def spread_rows(_, array, at, axes):
    """The number array[*at, e] on all lanes, for every e."""

    def emit(context, builder, signature, args):
        first = _place(context, builder, array, *args[:2])
        places = [builder.gep(first, [ir.Constant(ir.IntType(64), e)]) for e in range(axes.count)]
        numbers = [_spread(builder, builder.load(place)) for place in places]
        return context.make_tuple(builder, signature.return_type, numbers)

    return types.UniTuple(lanes, axes.count)(array, at, axes), emit


@intrinsic
def no_rows(_, axes):
    """Zeros."""

    def emit(context, builder, signature, args):
        return context.make_tuple(builder, signature.return_type, [_constant(0.0)] * axes.count)

    return types.UniTuple(lanes, axes.count)(axes), emit


@intrinsic
def dot(_, a, b, start):
    """start + Σ_e a_e b_e."""

    def emit(context, builder, signature, args):
        total = args[2]
        for x, y in zip(*(cgutils.unpack_tuple(builder, each) for each in args[:2]), strict=True):
            total = _fused(builder, x, y, total)
        return total

    return lanes(a, b, start), emit


@intrinsic
def add(_, c, a, start):
    """start_e + c a_e for every e."""

    def emit(context, builder, signature, args):
        pairs = zip(*(cgutils.unpack_tuple(builder, each) for each in args[1:]), strict=True)
        sums = [_fused(builder, args[0], x, y) for x, y in pairs]
        return context.make_tuple(builder, signature.return_type, sums)

    return start(c, a, start), emit


@intrinsic
def spread(_, number):
    """A float32 on all lanes."""
    return lanes(number), lambda context, builder, signature, args: _spread(builder, *args)


@intrinsic
def fused(_, x, y, z):
    """x·y + z."""
    return lanes(x, y, z), lambda context, builder, signature, args: _fused(builder, *args)


@intrinsic
def larger(_, x, y):
    """The larger of two."""

    def emit(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return lanes(x, y), emit


@intrinsic
def across(_, x):
    """The sum of all lanes, in float64: halves are added to halves."""

    def emit(context, builder, signature, args):
        width, (total,) = WIDTH, args
        total = builder.fpext(total, ir.VectorType(ir.DoubleType(), width))
        while width > 1:
            width //= 2
            none = ir.Constant(total.type, ir.Undefined)
            kind, halves = ir.VectorType(ir.IntType(32), width), []
            for first in (0, width):
                places = ir.Constant(kind, list(range(first, first + width)))
                halves.append(builder.shuffle_vector(total, none, places))
            total = builder.fadd(*halves)
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return types.float64(x), emit


@intrinsic
def power_of_two(_, x):
    """2^x for x ≤ 0, by its rounded part n in the exponent's bits and the rest r in a series.

    Below 2^-126, where there is no exponent left, it stays there. A NaN remains one.
    """

    def emit(context, builder, signature, args):
        lowest = _constant(-126.0)
        x = builder.select(builder.fcmp_ordered("<", args[0], lowest), lowest, args[0])
        rounded = builder.fadd(x, _constant(ROUNDER))
        r = builder.fsub(x, builder.fsub(rounded, _constant(ROUNDER)))
        series = _constant(POWERS[-1])
        for power in POWERS[-2::-1]:
            series = _fused(builder, series, r, _constant(power))
        n = builder.shl(builder.bitcast(rounded, INTEGERS), ir.Constant(INTEGERS, [23] * WIDTH))
        return builder.bitcast(builder.add(builder.bitcast(series, INTEGERS), n), VECTOR)

    return lanes(x), emit


def _operator(symbol, instruction: str) -> None:
    @intrinsic
    def apply(_, x, y):
        def emit(context, builder, signature, args):
            return getattr(builder, instruction)(*args)

        return lanes(x, y), emit

    @overload(symbol)
    def of_lanes(x, y):
        return (lambda x, y: apply(x, y)) if x == y == lanes else None


_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")
_operator(operator.add, "fadd")
