"""Division of an amount among siblings, level by level (SEMANTICS 7.4; KAI.md 2 and 3), and its rounding.

Floats decide whole units here. So that answers do not depend on the order in which anything was added
up, sums carry their rounding error along, and three comparisons have a tolerance: a weight that is 0
but for the last bits counts as 0, a part that is whole but for the last bits counts as whole, and
fractions are compared in steps of 2^-30.
"""

from libc.math cimport INFINITY, floor, fmin, rint

cdef double SMALL_WEIGHT = 1e-12  # of the terms a share weight is the difference of
cdef double SMALL_PART = 5e-16  # of the part: just above the four roundings it went through
cdef double NEARLY_WHOLE = 1e-9  # of a unit: for shares that went through several rounds and levels
cdef double SMALL_LEFT = 1e-12  # of the amount that is divided
cdef double FRACTION_STEPS = 1073741824.0


cdef inline double slack(double units) noexcept nogil:
    """Return how far `units` may be from a whole number and still count as whole."""
    return SMALL_PART * units


cdef inline void add(double *total, double *lost, double value) noexcept nogil:
    """Add to a sum and keep what the addition rounds away."""
    cdef double after = total[0] + value
    cdef double taken = after - total[0]
    lost[0] += (total[0] - (after - taken)) + (value - taken)
    total[0] = after


cdef inline bint goes_later(Py_ssize_t a, Py_ssize_t b, const double[::1] fraction,
                            const Py_ssize_t[::1] seniority) noexcept nogil:
    """Tell whether row a gets a left-over unit after row b: smaller fraction, then younger."""
    cdef double left = rint(fraction[a] * FRACTION_STEPS)
    cdef double right = rint(fraction[b] * FRACTION_STEPS)
    if left != right:
        return left < right
    return seniority[a] > seniority[b]


cdef void sift(Py_ssize_t[::1] rows, Py_ssize_t at, Py_ssize_t n, const double[::1] fraction,
               const Py_ssize_t[::1] seniority) noexcept nogil:
    """Let rows[at] sink to its place in a heap that has the last one to be served on top."""
    cdef Py_ssize_t child, row = rows[at]
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and goes_later(rows[child + 1], rows[child], fraction, seniority):
            child += 1
        if not goes_later(rows[child], row, fraction, seniority):
            break
        rows[at] = rows[child]
        at = child
    rows[at] = row


cdef void sort_by_fraction(Py_ssize_t[::1] rows, Py_ssize_t n, const double[::1] fraction,
                           const Py_ssize_t[::1] seniority) noexcept nogil:
    """Sort the first n rows: largest fraction first, then the oldest."""
    cdef Py_ssize_t i, last
    for i in range(n // 2 - 1, -1, -1):
        sift(rows, i, n, fraction, seniority)
    for i in range(n - 1, 0, -1):
        last = rows[i]
        rows[i] = rows[0]
        rows[0] = last
        sift(rows, 0, i, fraction, seniority)


def divide_levels(const Py_ssize_t[::1] rows, const Py_ssize_t[::1] group_start,
                  const Py_ssize_t[::1] group_parent, const double[:, ::1] deserved,
                  const double[:, ::1] limit, const double[:, ::1] weight, const long long[::1] priority,
                  const double[:, ::1] request, const double[:, ::1] usage, const double[::1] capacity,
                  double k, const double[::1] unit, bint plain_if_all_zero,
                  const Py_ssize_t[::1] seniority, Py_ssize_t[::1] active, double[::1] score,
                  double[::1] fraction, double[:, ::1] share, double[:, ::1] due,
                  double[:, ::1] corrected, double[:, ::1] effective, double[:, ::1] short):
    """Write the fair shares, and the weights of the first round each row took part in.

    `rows` lists the rows group by group, high priority first inside a group, a parent's own group
    before its children's; `group_start` has one entry more than there are groups. `unit` is 0 for a
    resource that is divided exactly, else the whole unit. `due`, `corrected`, `effective` and `short`
    come in as zeros. Return the number of rounds, and of rows visited in all of them.
    """
    cdef Py_ssize_t g, r, i, m, kept, row, first, last, low, high, rounds = 0, visits = 0
    cdef double amount, left, cap, total, n, s, start, part, wants, whole, tolerance, tiny, lost
    cdef bint again, fresh
    with nogil:
        for r in range(capacity.shape[0]):
            for g in range(group_parent.shape[0]):
                first, last = group_start[g], group_start[g + 1]
                amount = capacity[r] if group_parent[g] < 0 else share[group_parent[g], r]
                left = amount
                lost = 0.0
                for i in range(first, last):
                    row = rows[i]
                    cap = fmin(request[row, r], limit[row, r])
                    share[row, r] = fmin(amount if deserved[row, r] == INFINITY else deserved[row, r], cap)
                    add(&left, &lost, -share[row, r])
                    fraction[row] = 0.0
                left += lost
                lost = 0.0
                tolerance = slack(amount / unit[r]) * unit[r] if unit[r] > 0.0 else SMALL_LEFT * amount
                if left <= tolerance:
                    short[group_parent[g] + 1, r] = -left if left < -tolerance else 0.0
                    continue

                high = first
                while high < last:  # one priority after the other
                    low = high
                    m = 0
                    while high < last and priority[rows[high]] == priority[rows[low]]:
                        row = rows[high]
                        if weight[row, r] > 0.0 and share[row, r] < fmin(request[row, r], limit[row, r]):
                            active[m] = row
                            m += 1
                        high += 1
                    fresh = True
                    again = True
                    while again and m > 0 and left > tolerance:
                        again = False
                        rounds += 1
                        visits += m
                        total = 0.0
                        lost = 0.0
                        for i in range(m):
                            add(&total, &lost, weight[active[i], r])
                        start = total + lost
                        total = 0.0
                        lost = 0.0
                        for i in range(m):
                            row = active[i]
                            n = weight[row, r] / start
                            s = n + k * (n - usage[row, r])
                            if s <= SMALL_WEIGHT * (n + k * (n + usage[row, r])):
                                s = 0.0
                            score[i] = s
                            add(&total, &lost, s)
                            if fresh:
                                due[row, r] = n
                                corrected[row, r] = s
                        total += lost
                        if total == 0.0:
                            if not plain_if_all_zero:
                                break
                            for i in range(m):
                                score[i] = weight[active[i], r]
                            total = start
                        start = left
                        lost = 0.0
                        kept = 0
                        for i in range(m):
                            row = active[i]
                            if fresh:
                                effective[row, r] = score[i] / total
                            part = start * (score[i] / total)
                            wants = fmin(request[row, r], limit[row, r]) - share[row, r]
                            tiny = slack(part / unit[r]) * unit[r] if unit[r] > 0.0 else 0.0
                            if wants <= part + tiny:
                                again = again or wants < part - tiny
                                share[row, r] = fmin(request[row, r], limit[row, r])
                                add(&left, &lost, -wants)
                                fraction[row] = 0.0
                                continue
                            if unit[r] > 0.0:
                                part /= unit[r]
                                whole = floor(part + slack(part))
                                if part - whole > slack(part):
                                    fraction[row] = part - whole
                                part = whole * unit[r]
                            share[row, r] += part
                            add(&left, &lost, -part)
                            active[kept] = row
                            kept += 1
                        left += lost
                        m = kept
                        fresh = False

                if unit[r] == 0.0:
                    continue
                high = first
                while high < last and left > tolerance:  # units lost to rounding, by priority as well
                    low = high
                    m = 0
                    while high < last and priority[rows[high]] == priority[rows[low]]:
                        if fraction[rows[high]] > 0.0:
                            active[m] = rows[high]
                            m += 1
                        high += 1
                    sort_by_fraction(active, m, fraction, seniority)
                    for i in range(m):
                        if left <= tolerance:
                            break
                        part = fmin(unit[r], left)
                        share[active[i], r] += part
                        left -= part
    return rounds, visits


def round_shares(const Py_ssize_t[::1] rows, const Py_ssize_t[::1] group_start,
                 const Py_ssize_t[::1] group_parent, const double[:, ::1] share, const double[::1] unit,
                 const Py_ssize_t[::1] seniority, Py_ssize_t[::1] order, double[::1] fraction,
                 double[:, ::1] out):
    """Write the shares in whole units, by largest remainder inside each group, keeping its sum.

    A group that uses up its parent's share adds up to the parent's rounded share, any other to its own
    sum rounded down.
    """
    cdef Py_ssize_t g, r, i, row, first, last, n
    cdef double total, whole, units, target
    with nogil:
        for r in range(unit.shape[0]):
            for g in range(group_parent.shape[0]):
                first, last = group_start[g], group_start[g + 1]
                n = last - first
                total = 0.0
                whole = 0.0
                for i in range(n):
                    row = rows[first + i]
                    units = share[row, r] / unit[r]
                    total += units
                    out[row, r] = floor(units + NEARLY_WHOLE)
                    whole += out[row, r]
                    fraction[row] = units - out[row, r]
                    order[i] = row
                target = floor(total + NEARLY_WHOLE)
                if group_parent[g] >= 0:
                    units = share[group_parent[g], r] / unit[r]
                    if -NEARLY_WHOLE <= total - units <= NEARLY_WHOLE:
                        target = rint(out[group_parent[g], r] / unit[r])
                sort_by_fraction(order, n, fraction, seniority)
                for i in range(n):
                    row = order[i]
                    if whole < target and fraction[row] > NEARLY_WHOLE:
                        out[row, r] += 1.0
                        whole += 1.0
                for i in range(n):
                    out[rows[first + i], r] *= unit[r]
