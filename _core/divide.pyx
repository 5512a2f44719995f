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


cdef inline bint goes_later(Py_ssize_t a, Py_ssize_t b, const double *fraction,
                            const Py_ssize_t *seniority) noexcept nogil:
    """Tell whether row a gets a left-over unit after row b: smaller fraction, then younger."""
    cdef double left = rint(fraction[a] * FRACTION_STEPS)
    cdef double right = rint(fraction[b] * FRACTION_STEPS)
    if left != right:
        return left < right
    return seniority[a] > seniority[b]


cdef void sift(Py_ssize_t *rows, Py_ssize_t at, Py_ssize_t n, const double *fraction,
               const Py_ssize_t *seniority) noexcept nogil:
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


cdef void sort_by_fraction(Py_ssize_t *rows, Py_ssize_t n, const double *fraction,
                           const Py_ssize_t *seniority) noexcept nogil:
    """Sort the first n rows: largest fraction first, then the oldest."""
    cdef Py_ssize_t i, last
    for i in range(n // 2 - 1, -1, -1):
        sift(rows, i, n, fraction, seniority)
    for i in range(n - 1, 0, -1):
        last = rows[i]
        rows[i] = rows[0]
        rows[0] = last
        sift(rows, 0, i, fraction, seniority)


cdef struct Columns:
    # One resource of all quotas, and what is common to them.
    const Py_ssize_t *rows
    const long long *priority
    const Py_ssize_t *seniority
    const double *deserved
    const double *limit
    const double *weight
    const double *request
    const double *usage
    double k
    double unit
    bint plain_if_all_zero
    Py_ssize_t *active  # rows that take part in a round
    double *score  # their weights in it
    double *fraction  # of a unit that a row is owed
    double *share
    double *due
    double *corrected
    double *effective


cdef inline double cap_of(const Columns *c, Py_ssize_t row) noexcept nogil:
    return fmin(c.request[row], c.limit[row])


cdef double give_deserved(const Columns *c, Py_ssize_t first, Py_ssize_t last, double amount) noexcept nogil:
    """Give each row of a group what it deserves, as far as it can use it; return what is left."""
    cdef Py_ssize_t i, row
    cdef double left = amount, lost = 0.0
    for i in range(first, last):
        row = c.rows[i]
        c.share[row] = fmin(amount if c.deserved[row] == INFINITY else c.deserved[row], cap_of(c, row))
        add(&left, &lost, -c.share[row])
        c.fraction[row] = 0.0
    return left + lost


cdef Py_ssize_t band_end(const Columns *c, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Return where the rows of the first one's priority end."""
    cdef Py_ssize_t i = first
    while i < last and c.priority[c.rows[i]] == c.priority[c.rows[first]]:
        i += 1
    return i


cdef Py_ssize_t find_hungry(const Columns *c, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Make the rows that may get more active; return their number."""
    cdef Py_ssize_t i, row, m = 0
    for i in range(first, last):
        row = c.rows[i]
        if c.weight[row] > 0.0 and c.share[row] < cap_of(c, row):
            c.active[m] = row
            m += 1
    return m


cdef double weigh(const Columns *c, Py_ssize_t m, bint fresh) noexcept nogil:
    """Score the active rows by weight and use; return the sum of the scores."""
    cdef Py_ssize_t i, row
    cdef double weights = 0.0, total = 0.0, lost = 0.0, due, score
    for i in range(m):
        add(&weights, &lost, c.weight[c.active[i]])
    weights += lost
    lost = 0.0
    for i in range(m):
        row = c.active[i]
        due = c.weight[row] / weights
        score = due + c.k * (due - c.usage[row])
        if score <= SMALL_WEIGHT * (due + c.k * (due + c.usage[row])):
            score = 0.0
        c.score[i] = score
        add(&total, &lost, score)
        if fresh:
            c.due[row] = due
            c.corrected[row] = score
    total += lost
    if total == 0.0 and c.plain_if_all_zero:
        for i in range(m):
            c.score[i] = c.weight[c.active[i]]
        total = weights
    return total


cdef bint hand_out(const Columns *c, Py_ssize_t *m, double *left, double total, bint fresh) noexcept nogil:
    """Give each active row its part of what is left; return whether one wanted less than its part.

    Rows that are satisfied drop out of the active ones.
    """
    cdef Py_ssize_t i, row, kept = 0
    cdef double amount = left[0], lost = 0.0, part, wants, tiny, whole
    cdef bint again = False
    for i in range(m[0]):
        row = c.active[i]
        if fresh:
            c.effective[row] = c.score[i] / total
        part = amount * (c.score[i] / total)
        wants = cap_of(c, row) - c.share[row]
        tiny = slack(part)
        if c.unit == 0.0:
            tiny = 0.0
        if wants <= part + tiny:
            again = again or wants < part - tiny
            c.share[row] = cap_of(c, row)
            c.fraction[row] = 0.0
            add(left, &lost, -wants)
            continue
        if c.unit > 0.0:
            part /= c.unit
            whole = floor(part + slack(part))
            if part - whole > slack(part):
                c.fraction[row] = part - whole
            part = whole * c.unit
        c.share[row] += part
        add(left, &lost, -part)
        c.active[kept] = row
        kept += 1
    left[0] += lost
    m[0] = kept
    return again


cdef double hand_out_units(const Columns *c, Py_ssize_t first, Py_ssize_t last, double left,
                           double tolerance) noexcept nogil:
    """Give what rounding left to the rows with the largest fractions; return what is left then."""
    cdef Py_ssize_t i, m = 0
    cdef double part
    for i in range(first, last):
        if c.fraction[c.rows[i]] > 0.0:
            c.active[m] = c.rows[i]
            m += 1
    sort_by_fraction(c.active, m, c.fraction, c.seniority)
    for i in range(m):
        if left <= tolerance:
            break
        part = fmin(c.unit, left)
        c.share[c.active[i]] += part
        left -= part
    return left


cdef double divide_group(const Columns *c, Py_ssize_t first, Py_ssize_t last, double amount,
                         Py_ssize_t *rounds, Py_ssize_t *visits) noexcept nogil:
    """Divide an amount among one group; return by how much it was short of what is deserved."""
    cdef double left = give_deserved(c, first, last, amount)
    cdef double tolerance = slack(amount) if c.unit > 0.0 else SMALL_LEFT * amount, total
    cdef Py_ssize_t low = first, high, m
    cdef bint again, fresh
    if left <= tolerance:
        return -left if left < -tolerance else 0.0
    while low < last:
        high = band_end(c, low, last)
        m = find_hungry(c, low, high)
        again = fresh = True
        while again and m > 0 and left > tolerance:
            rounds[0] += 1
            visits[0] += m
            total = weigh(c, m, fresh)
            again = total > 0.0 and hand_out(c, &m, &left, total, fresh)
            fresh = False
        low = high
    low = first
    while c.unit > 0.0 and low < last and left > tolerance:
        high = band_end(c, low, last)
        left = hand_out_units(c, low, high, left, tolerance)
        low = high
    return 0.0


def divide_levels(const Py_ssize_t[::1] rows, const Py_ssize_t[::1] group_start,
                  const Py_ssize_t[::1] group_parent, const long long[::1] priority,
                  const Py_ssize_t[::1] seniority, const double[:, ::1] deserved,
                  const double[:, ::1] limit, const double[:, ::1] weight, const double[:, ::1] request,
                  const double[:, ::1] usage, const double[::1] capacity, const double[::1] unit, double k,
                  bint plain_if_all_zero, Py_ssize_t[::1] active, double[::1] score, double[::1] fraction,
                  double[:, ::1] share, double[:, ::1] due, double[:, ::1] corrected,
                  double[:, ::1] effective, double[:, ::1] short):
    """Write the fair shares, and the weights of the first round each row took part in.

    Matrices are (n_resources, n_rows), `short` has one column more: [p + 1] for the children of row p.
    `rows` lists the rows group by group, high priority first inside a group, a parent's own group
    before its children's; `group_start` has one entry more than there are groups. `unit` is 0 for a
    resource that is divided exactly, else the whole unit. Outputs come in as zeros. Return the number
    of rounds, and of rows visited in all of them.
    """
    cdef Py_ssize_t g, r, parent, rounds = 0, visits = 0
    cdef Columns c
    if rows.shape[0] == 0:
        return 0, 0
    c.rows, c.priority, c.seniority = &rows[0], &priority[0], &seniority[0]
    c.active, c.score, c.fraction = &active[0], &score[0], &fraction[0]
    c.k, c.plain_if_all_zero = k, plain_if_all_zero
    with nogil:
        for r in range(capacity.shape[0]):
            c.deserved, c.limit, c.weight = &deserved[r, 0], &limit[r, 0], &weight[r, 0]
            c.request, c.usage, c.unit = &request[r, 0], &usage[r, 0], unit[r]
            c.share, c.due = &share[r, 0], &due[r, 0]
            c.corrected, c.effective = &corrected[r, 0], &effective[r, 0]
            for g in range(group_parent.shape[0]):
                parent = group_parent[g]
                short[r, parent + 1] = divide_group(
                    &c, group_start[g], group_start[g + 1], capacity[r] if parent < 0 else share[r, parent],
                    &rounds, &visits)
    return rounds, visits


def round_shares(const Py_ssize_t[::1] rows, const Py_ssize_t[::1] group_start,
                 const Py_ssize_t[::1] group_parent, const Py_ssize_t[::1] seniority,
                 const double[:, ::1] share, const double[::1] unit, Py_ssize_t[::1] order,
                 double[::1] fraction, double[:, ::1] out):
    """Write the shares, (n_resources, n_rows), in whole units, by largest remainder inside each group.

    A group that uses up its parent's share adds up to the parent's rounded share, any other to its own
    sum rounded down.
    """
    cdef Py_ssize_t g, r, i, row, first, n
    cdef double total, whole, units, target
    with nogil:
        for r in range(unit.shape[0]):
            for g in range(group_parent.shape[0]):
                first = group_start[g]
                n = group_start[g + 1] - first
                total = 0.0
                whole = 0.0
                for i in range(n):
                    row = rows[first + i]
                    units = share[r, row] / unit[r]
                    total += units
                    out[r, row] = floor(units + NEARLY_WHOLE)
                    whole += out[r, row]
                    fraction[row] = units - out[r, row]
                    order[i] = row
                target = floor(total + NEARLY_WHOLE)
                if group_parent[g] >= 0:
                    units = share[r, group_parent[g]] / unit[r]
                    if -NEARLY_WHOLE <= total - units <= NEARLY_WHOLE:
                        target = rint(out[r, group_parent[g]] / unit[r])
                sort_by_fraction(&order[0], n, &fraction[0], &seniority[0])
                for i in range(n):
                    row = order[i]
                    if whole < target and fraction[row] > NEARLY_WHOLE:
                        out[r, row] += 1.0
                        whole += 1.0
                for i in range(n):
                    out[r, rows[first + i]] *= unit[r]
