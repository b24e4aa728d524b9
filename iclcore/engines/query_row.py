"""The query's row of softmax attention and its gradients, compiled, shared out between threads.

A set of sequences is cut into parts of PART blocks of WIDTH sequences. Sums within a part are
float32, as in the published code; sums of parts are float64 and in their order, so that results do
not depend on which thread did what.
"""

from hashlib import sha256
from pathlib import Path

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from iclcore.engines import lanes
from iclcore.engines.lanes import (
    WIDTH,
    across,
    add,
    dot,
    fused,
    larger,
    load,
    no_rows,
    power_of_two,
    put,
    rows,
    spread,
    spread_rows,
    store,
)

TAKEN, FINISHED, ENDED = 0, 1, 2  # the counts that threads share
PATIENCE = 1_000_000  # looks for more work, of about a nanosecond each


def _atomic(operation: str):
    """One instruction on counts[which], seen by all threads in one order: the count before it."""

    @intrinsic
    def apply(_, counts, which, number):
        def emit(context, builder, signature, args):
            array = context.make_array(counts)(context, builder, args[0])
            place = builder.gep(array.data, [args[1]])
            return builder.atomic_rmw(operation, place, args[2], "seq_cst")

        return types.int64(counts, types.int64, types.int64), emit

    return apply


_raise, _set = _atomic("add"), _atomic("xchg")


@intrinsic
def _read(_, counts, which):
    """counts[which], as other threads left it."""

    def emit(context, builder, signature, args):
        array = context.make_array(counts)(context, builder, args[0])
        return builder.load_atomic(builder.gep(array.data, [args[1]]), "seq_cst", 8)

    return types.int64(counts, types.int64), emit


@njit(cache=True)
def aligned(shape):
    """A float32 array of zeros that starts with a cache line: a vector across two is read twice."""
    size = 1
    for length in shape:
        size *= length
    room = np.zeros(size + 16, dtype=np.float32)
    first = -(room.ctypes.data // 4) % 16
    return room[first : first + size].reshape(shape)


def _compiled_with(operations: int):
    """``share``, kept compiled for these ``operations`` alone.

    numba keeps compiled code by the date of this file, but the operations come from ``lanes``.
    """

    @njit(cache=True, nogil=True)
    def share(leads, w, v, data, losses, dws, dvs, axes, counts):
        """Every part's summed squared error, and half its gradients in W and v as far as dws and dvs
        have rows.

        w (H, D, E) and v (H, O, E) are float32. data: tokens (tokens, E, WIDTH), where each block of them
        starts, answers (blocks, O + 1, WIDTH), one divided by each block's divisor, where each part starts.
        The thread that leads opens a pass, and returns when all of it is done. The others take parts of
        one pass after the other until ENDED. They wait awake, for to be woken takes longer than a part, but
        not for long: where there are fewer cores than threads, who waits would keep who works from one.
        """
        _ = operations  # in the closure, and so in numba's key
        tokens, starts, answers, scales, parts = data
        heads, dim, size = w.shape
        outputs = v.shape[1]
        longest = np.max(starts[1:] - starts[:-1])
        zero, one = spread(np.float32(0)), spread(np.float32(1))
        binary = spread(np.float32(1 / np.log(2)))  # e^score = 2^(score / ln 2)
        p, mass = aligned((heads, longest, WIDTH)), aligned((heads, WIDTH))
        context, residual = aligned((heads, size, WIDTH)), aligned((outputs, WIDTH))
        dw, dv = aligned((heads, dim, size, WIDTH)), aligned((heads, outputs, size, WIDTH))
        if leads:
            _set(counts, FINISHED, 0)
            _set(counts, TAKEN, 0)
        while True:
            part = _raise(counts, TAKEN, 1)
            if part >= len(losses):
                while leads and _read(counts, FINISHED) < len(losses):
                    pass
                looks = PATIENCE * (not leads)
                while (
                    looks > 0 and _read(counts, TAKEN) >= len(losses) and not _read(counts, ENDED)
                ):
                    looks -= 1
                if looks == 0 or _read(counts, ENDED):
                    return
                continue
            loss = zero
            for h in range(heads):
                for d in range(dim):
                    put(dw, (h, d), no_rows(axes))
                for o in range(outputs):
                    put(dv, (h, o), no_rows(axes))
            for block in range(parts[part], parts[part + 1]):
                first, last = starts[block], starts[block + 1] - 1
                n, scale = last + 1 - first, spread(scales[block])
                for o in range(outputs):
                    store(residual, (o,), zero)
                for h in range(heads):
                    # score_m = (x_qᵀ W_h) token_m
                    u, top = no_rows(axes), spread(np.float32(-np.inf))
                    for d in range(dim):
                        u = add(binary * load(tokens, (last, d)), spread_rows(w, (h, d), axes), u)
                    for m in range(n):
                        score = dot(u, rows(tokens, (first + m,), axes), zero)
                        store(p, (h, m), score)
                        top = larger(top, score)
                    store(mass, (h,), top)
                for h in range(heads):
                    # context = Σ_m p_m token_m, prediction += v·context
                    top, total, sums = load(mass, (h,)), zero, no_rows(axes)
                    for m in range(n):
                        q = power_of_two(load(p, (h, m)) - top)
                        store(p, (h, m), q)
                        total = total + q
                        sums = add(q, rows(tokens, (first + m,), axes), sums)
                    store(mass, (h,), one / total)
                    sums = add(one / total, sums, no_rows(axes))
                    put(context, (h,), sums)
                    for o in range(outputs):
                        prediction = dot(spread_rows(v, (h, o), axes), sums, load(residual, (o,)))
                        store(residual, (o,), prediction)
                for o in range(outputs):
                    error = scale * load(residual, (o,)) - load(answers, (block, o))
                    error = error * load(answers, (block, outputs))
                    loss = fused(error, error, loss)
                    store(residual, (o,), scale * error)
                if part >= len(dws):
                    continue
                for h in range(heads):
                    # d context = Σ_o residual_o v_o;  d score_m = p_m (d context·token_m − slope)
                    sums, pull, du = rows(context, (h,), axes), no_rows(axes), no_rows(axes)
                    for o in range(outputs):
                        error = load(residual, (o,))
                        put(dv, (h, o), add(error, sums, rows(dv, (h, o), axes)))
                        pull = add(error, spread_rows(v, (h, o), axes), pull)
                    pull = add(load(mass, (h,)), pull, no_rows(axes))
                    slope = dot(pull, sums, zero)
                    for m in range(n):
                        token = rows(tokens, (first + m,), axes)
                        du = add(load(p, (h, m)) * dot(pull, token, zero - slope), token, du)
                    for d in range(dim):
                        put(dw, (h, d), add(load(tokens, (last, d)), du, rows(dw, (h, d), axes)))
            losses[part] = across(loss)
            for h in range(heads if part < len(dws) else 0):
                for e in range(size):
                    for d in range(dim):
                        dws[part, h, d, e] = across(load(dw, (h, d, e)))
                    for o in range(outputs):
                        dvs[part, h, o, e] = across(load(dv, (h, o, e)))
            _raise(counts, FINISHED, 1)

    return share


share = _compiled_with(int(sha256(Path(lanes.__file__).read_bytes()).hexdigest()[:15], 16))
