"""Exact integrals of step functions over time: what quotas held, held beyond deserved, could have had.

A sweep walks through events in the order of time and keeps, per quota and sibling group, the integral
since the sweep's origin as a sum of two floats (106 bits). With a half-life every moment t has the
weight 2^((t - origin) / half-life - shift), which never has to be changed as time goes on; only the
shift grows now and then, which is exact. The integral over a window is the difference of two such
sweeps, and because both add up the same numbers in the same order, nothing is left of what has gone.

An event is one number: seconds since the origin in the high 32 bits, and below them what happens, plus
2^31: h for a holding that begins, its complement for one that ends, 2^30 + j for step j.
"""

from libc.math cimport M_LN2, exp2, expm1, floor, fmax, ldexp
from libc.string cimport memset

cdef enum:
    HELD, DESERVED, SINCE, ALLOCATED, ALLOCATED_LOW, OVER, OVER_LOW  # fields of a node
cdef enum:
    INSIDE, G_SINCE, SURPLUS, SURPLUS_LOW  # fields of a group
cdef enum:
    SIZE, C_SINCE, CAPACITY, CAPACITY_LOW  # fields of the pool
cdef enum:
    LOW_BITS = 9  # a table has 2^9 short steps
    TICK = 1 << 17  # seconds; every integral is brought up to date this often, so no step is longer
    FAINTEST = -1020  # weights below 2^-1020, the smallest normal floats, are 0

cdef long long STEPS = 1 << 30
cdef long long HALF = 1 << 31
cdef long long LOW_HALF = (1 << 32) - 1


def decay_tables(double half_life_s, double[::1] far, double[::1] far_length, double[::1] near_length,
                 double[::1] near):
    """Fill the tables that give 2^(-d/h) and its integral from 0 to d for whole seconds d.

    With n = len(near), a power of two, d = i n + j: the weight is far[i] near[j], the integral
    far_length[i] + far[i] near_length[j].
    """
    cdef Py_ssize_t i, n = near.shape[0]
    cdef double unit = half_life_s / M_LN2
    with nogil:
        for i in range(n):
            near[i] = exp2(-i / half_life_s)
            near_length[i] = -unit * expm1(-M_LN2 * i / half_life_s)
        for i in range(far.shape[0]):
            far[i] = exp2(-(<double> i * n) / half_life_s)
            far_length[i] = -unit * expm1(-M_LN2 * (<double> i * n) / half_life_s)


def interval_sums(const long long[::1] key, const long long[::1] end_s, const int[::1] holding,
                  const int[::1] holding_node, const double[:, ::1] holding_amount, long long from_s,
                  long long to_s, const double[::1] far, const double[::1] far_length,
                  const double[::1] near_length, const double[::1] near, double[:, ::1] out):
    """Add each run's amount times its time in [from_s, to_s], decayed to to_s, to its node's row of `out`.

    The start of a run is the low half of its key; an end below 0 has not come yet. Empty tables
    mean no decay, else they cover to_s - from_s.
    """
    cdef Py_ssize_t i, r, node, low = near.shape[0] - 1, bits = 0
    cdef long long begins, ends, before
    cdef double length
    cdef bint decays = near.shape[0] > 0
    with nogil:
        while decays and (1 << bits) <= low:
            bits += 1
        for i in range(key.shape[0]):
            begins = key[i] & LOW_HALF
            begins = begins if begins > from_s else from_s
            ends = end_s[i] if 0 <= end_s[i] < to_s else to_s
            if ends <= begins:
                continue
            length = <double> (ends - begins)
            if decays:
                before = to_s - ends
                ends -= begins
                length = ((far_length[ends >> bits] + far[ends >> bits] * near_length[ends & low])
                          * far[before >> bits] * near[before & low])
            node = holding_node[holding[i]]
            for r in range(out.shape[1]):
                out[node, r] += holding_amount[holding[i], r] * length


def run_events(const long long[::1] key, const long long[::1] end_s, const int[::1] holding,
               long long origin_s, long long after_s, long long until_s, long long[::1] out):
    """Write when runs began and ended, after `after_s` and until `until_s`; return how many events that are.

    `out` has two places a run. A run that ended before the origin is left out, what began before it
    begins there. The start of a run is the low half of its key.
    """
    cdef Py_ssize_t i, n = 0
    cdef long long start_s, seen_s = origin_s if origin_s > after_s else after_s
    with nogil:
        for i in range(key.shape[0]):
            if 0 <= end_s[i] <= seen_s:
                continue
            start_s = key[i] & LOW_HALF
            if after_s < start_s <= until_s:
                out[n] = ((start_s - origin_s if start_s > origin_s else 0) << 32) | (holding[i] + HALF)
                n += 1
            if 0 <= end_s[i] <= until_s:
                out[n] = ((end_s[i] - origin_s) << 32) | (~holding[i] + HALF)
                n += 1
    return n


def sort_events(long long[::1] events, long long[::1] spare):
    """Put events into the order of time; `spare` has the same length.

    Return whether the result is in `spare`. The order within a second stays as it is: it matters to no
    integral.
    """
    cdef Py_ssize_t i, place, digit, n = events.shape[0]
    cdef int passes = 0, p
    cdef long long largest = 0
    cdef Py_ssize_t[3][2048] count
    cdef long long *source = &events[0]
    cdef long long *target = &spare[0]
    cdef bint in_order = True
    with nogil:
        memset(count, 0, sizeof(count))
        for i in range(n):
            in_order = in_order and (i == 0 or source[i] >> 32 >= source[i - 1] >> 32)
            largest = source[i] if source[i] > largest else largest
            count[0][(source[i] >> 32) & 2047] += 1
            count[1][(source[i] >> 43) & 2047] += 1
            count[2][source[i] >> 54] += 1
        while not in_order and passes < 3 and largest >> (32 + 11 * passes) > 0:
            passes += 1
        for p in range(passes):
            place = 0
            for digit in range(2048):
                place += count[p][digit]
                count[p][digit] = place - count[p][digit]
            for i in range(n):
                digit = (source[i] >> (32 + 11 * p)) & 2047
                target[count[p][digit]] = source[i]
                count[p][digit] += 1
            source, target = target, source
    return passes % 2 == 1


cdef struct Decay:
    double half_life_s  # 0 for none
    long long shift
    const double *far
    const double *far_length
    const double *near_length


cdef inline double weight_at(const Decay *decay, long long at) noexcept nogil:
    """Return the weight of the moment `at`, seconds since the origin."""
    cdef double halvings, whole
    if decay.half_life_s == 0.0:
        return 1.0
    halvings = at / decay.half_life_s
    whole = floor(halvings)
    if whole - decay.shift < FAINTEST:
        return 0.0
    return ldexp(exp2(halvings - whole), <int> (whole - decay.shift))


cdef inline double length_of(const Decay *decay, long long seconds) noexcept nogil:
    """Return the integral of the weight over the last `seconds`, in weights of their end."""
    if decay.half_life_s == 0.0:
        return <double> seconds
    return (decay.far_length[seconds >> LOW_BITS]
            + decay.far[seconds >> LOW_BITS] * decay.near_length[seconds & ((1 << LOW_BITS) - 1)])


cdef inline void add(double *total, double value) noexcept nogil:
    """Add to total[0], and to total[1] what the addition rounds away."""
    cdef double after = total[0] + value
    cdef double taken = after - total[0]
    total[1] += (total[0] - (after - taken)) + (value - taken)
    total[0] = after


cdef inline double least(double a, double b) noexcept nogil:
    return a if a < b else b


cdef inline double positive(double value) noexcept nogil:
    return value if value > 0.0 else 0.0


cdef inline void settle_node(double *node, long long at, double weight, const Decay *decay) noexcept nogil:
    """Bring a node's integrals up to `at`."""
    cdef long long seconds = at - <long long> node[SINCE]
    cdef double length
    if seconds == 0:
        return
    node[SINCE] = <double> at
    length = length_of(decay, seconds) * weight
    add(node + ALLOCATED, node[HELD] * length)
    add(node + OVER, positive(node[HELD] - node[DESERVED]) * length)


cdef inline void settle_group(double *group, double pool, long long at, double weight,
                              const Decay *decay) noexcept nogil:
    """Bring a group's surplus up to `at`; `pool` is what it divided until then."""
    cdef long long seconds = at - <long long> group[G_SINCE]
    group[G_SINCE] = <double> at
    add(group + SURPLUS, positive(pool - group[INSIDE]) * (length_of(decay, seconds) * weight))


cdef inline void settle_pool(double *pool, long long at, double weight, const Decay *decay) noexcept nogil:
    cdef long long seconds = at - <long long> pool[C_SINCE]
    if seconds == 0:
        return
    pool[C_SINCE] = <double> at
    add(pool + CAPACITY, pool[SIZE] * (length_of(decay, seconds) * weight))


cdef struct Tree:
    const int *parent  # row of the parent, -1 at the top
    const int *group  # the node's own group of siblings
    const int *below  # the group of its children, -1 for none
    const int *group_parent  # -1 for the group at the top


cdef inline double pool_of(Py_ssize_t group, const Tree *tree, double[:, ::1] nodes,
                           const double *pool) noexcept nogil:
    """Return what a group divides: the capacity, or what its parent deserves or holds."""
    cdef Py_ssize_t parent = tree.group_parent[group]
    if parent < 0:
        return pool[SIZE]
    return fmax(nodes[parent, DESERVED], nodes[parent, HELD])


cdef inline void settle_around(Py_ssize_t group, const Tree *tree, double[:, ::1] nodes,
                               double[:, ::1] groups, const double *pool, long long at, double weight,
                               const Decay *decay) noexcept nogil:
    if group >= 0 and groups[group, G_SINCE] != at:
        settle_group(&groups[group, 0], pool_of(group, tree, nodes, pool), at, weight, decay)


cdef void settle_all(const Tree *tree, double[:, ::1] nodes, double[:, ::1] groups, double *pool,
                     long long at, const Decay *decay) noexcept nogil:
    cdef Py_ssize_t i
    cdef double weight = weight_at(decay, at)
    for i in range(groups.shape[0]):
        settle_around(i, tree, nodes, groups, pool, at, weight, decay)
    for i in range(nodes.shape[0]):
        settle_node(&nodes[i, 0], at, weight, decay)
    settle_pool(pool, at, weight, decay)


cdef inline void change(Py_ssize_t node, double held, double deserved, const Tree *tree,
                        double[:, ::1] nodes, double[:, ::1] groups, const double *pool, long long at,
                        double weight, const Decay *decay) noexcept nogil:
    """Let a node hold and deserve so much from `at` on."""
    cdef double before = least(nodes[node, HELD], nodes[node, DESERVED])
    settle_around(tree.group[node], tree, nodes, groups, pool, at, weight, decay)
    settle_around(tree.below[node], tree, nodes, groups, pool, at, weight, decay)
    settle_node(&nodes[node, 0], at, weight, decay)
    nodes[node, HELD] = held
    nodes[node, DESERVED] = deserved
    groups[tree.group[node], INSIDE] += least(held, deserved) - before


def sweep(const long long[::1] events, Py_ssize_t first, long long until, bint finish,
          const int[::1] holding_node, const double[:, ::1] holding_amount, const int[::1] step_node,
          const double[:, ::1] step_amount, const int[::1] parent, const int[::1] group,
          const int[::1] below, const int[::1] group_parent, double half_life_s, long long shift,
          const double[::1] far, const double[::1] far_length, const double[::1] near_length,
          long long[::1] next_tick, double[:, :, ::1] nodes, double[:, :, ::1] groups,
          double[:, ::1] pool):
    """Apply the events from row `first` on, up to and with `until`; return the row of the next one.

    A step changes what its node deserves, or with node -1 the capacity. `nodes`, `groups` and `pool` are
    (n_resources, ..., fields), and `next_tick` belongs to them. Times are seconds since the origin. With
    `finish` every integral is brought up to `until`; the state is then good for reading only, because
    its later sums would be rounded at another moment.
    """
    cdef Py_ssize_t i = first, r, h, node
    cdef long long at, last = -1
    cdef double weight = 1.0, sign
    cdef Decay decay
    cdef Tree tree
    if parent.shape[0] == 0:
        return first
    decay.half_life_s = half_life_s
    decay.shift = shift
    decay.far = &far[0]
    decay.far_length = &far_length[0]
    decay.near_length = &near_length[0]
    tree.parent = &parent[0]
    tree.group = &group[0]
    tree.below = &below[0]
    tree.group_parent = &group_parent[0]
    with nogil:
        while True:
            at = events[i] >> 32 if i < events.shape[0] else until + 1
            while next_tick[0] <= until and next_tick[0] <= at:
                for r in range(pool.shape[0]):
                    settle_all(&tree, nodes[r], groups[r], &pool[r, 0], next_tick[0], &decay)
                next_tick[0] += TICK
            if at > until:
                break
            if at != last:
                weight = weight_at(&decay, at)
                last = at
            h = (events[i] & LOW_HALF) - HALF
            sign = 1.0 - 2.0 * (h < 0)
            h ^= -(h < 0)
            for r in range(pool.shape[0]):
                if h >= STEPS and step_node[h - STEPS] < 0:
                    settle_around(0, &tree, nodes[r], groups[r], &pool[r, 0], at, weight, &decay)
                    settle_pool(&pool[r, 0], at, weight, &decay)
                    pool[r, SIZE] = step_amount[h - STEPS, r]
                elif h >= STEPS:
                    node = step_node[h - STEPS]
                    change(node, nodes[r, node, HELD], step_amount[h - STEPS, r], &tree, nodes[r],
                           groups[r], &pool[r, 0], at, weight, &decay)
                else:
                    node = holding_node[h] if holding_amount[h, r] != 0.0 else -1
                    while node >= 0:
                        change(node, nodes[r, node, HELD] + sign * holding_amount[h, r],
                               nodes[r, node, DESERVED], &tree, nodes[r], groups[r], &pool[r, 0], at,
                               weight, &decay)
                        node = parent[node]
            i += 1
        if finish:
            for r in range(pool.shape[0]):
                settle_all(&tree, nodes[r], groups[r], &pool[r, 0], until, &decay)
    return i
