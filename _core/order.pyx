"""The walk of one pass over one pool (DESIGN 3a, SEMANTICS 5). It knows no policy by name.

Callers check shapes and allocate: a normal build checks nothing.
"""

cimport cython
from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    void prefetch "__builtin_prefetch" (const void *) noexcept nogil

cdef enum:  # model.Outcome
    STARTS = 1
    LIMIT = 2
    CAPACITY = 3
    PLACEMENT = 4
    HELD_BACK = 5

cdef enum:  # model.Closes
    CLOSES_LANE = 1
    CLOSES_QUOTA = 2

cdef double NO_SHARE = 1e300  # the ratio of a quota that has no share at all
cdef int64_t FOREVER_S = 1 << 40  # model.FOREVER_S
cdef int64_t MOST_IN_TURN = 512  # places that are shared out; Slurm looks at no more by default
cdef int64_t MOST_NAMED = 512  # entries that hear for whom they are held back; others wait for more than that
cdef int64_t AHEAD = 8  # how many entries of a leaf are asked for before their turn


cdef inline bint touches(uint64_t classes, uint64_t others, bint inside) noexcept nogil:
    """Tell whether classes lie inside the others, or share one with them."""
    return not classes & ~others if inside else (classes & others) != 0


@cython.final
cdef class Walk:
    """All that one pass looks at and changes; the names are those of model and of order.py."""

    # entries
    cdef const int64_t[:, ::1] need
    cdef const int64_t[::1] nodes, tasks, order_s, waiting_since_s, time_limit_s
    cdef const uint64_t[::1] classes
    cdef const uint8_t[::1] unplaced, promised, closes, closes_fresh
    cdef const int32_t[::1] leaf, lane
    # their order: what is left of leaf q are the rows line[head[q]:stop[q]]
    cdef int64_t[::1] line, head, stop
    # quotas; `turn` is a quota's priority, smaller first
    cdef const int32_t[::1] parent, name_rank
    cdef const uint8_t[::1] limited
    cdef const int64_t[::1] turn, resources, max_window
    cdef const double[:, ::1] deserved, limit, fair_share, entitlement
    cdef double[:, ::1] allocated
    # the heap of p's children is heap[first[p]:first[p] + size[p]]; the root stands behind the last quota
    cdef const int64_t[::1] first
    cdef int64_t[::1] heap, size
    # the key of each quota with the best candidate below it
    cdef int64_t[::1] candidate, since_s
    cdef int32_t[::1] tier
    cdef double[::1] ratio
    # room; at_least[c, f] counts the nodes of class c with f or more units free
    cdef const int64_t[::1] capacity, free_before, class_free_before
    cdef int64_t[::1] free, class_free
    cdef int64_t[:, ::1] at_least
    # running jobs, by end
    cdef const int64_t[::1] end_by_s
    cdef const int64_t[:, ::1] held
    cdef const uint64_t[::1] held_classes
    # reservations: the row a leaf has reserved for (-1 for none), and their sums by distinct classes
    cdef int64_t[::1] reservation, reserving, shadow_s, reserved_sum
    cdef uint64_t[::1] claim_classes  # of each reservation, side by side for who looks at all
    cdef int64_t[:, ::1] claim  # what each reserves, resources first
    cdef uint64_t[::1] group_classes
    cdef uint64_t promised_classes  # of all reservations that were made in an earlier pass
    cdef int64_t[:, ::1] group_sum
    cdef int64_t[::1] begun  # tasks of the candidate that start
    # closed lanes: by which row (-1 for open), and failures so far
    cdef int64_t[:, ::1] closed_by, failures
    # results
    cdef uint8_t[::1] outcome, reserved
    cdef int64_t[::1] starts, more, attempt, place_open, blocker, room_s, position
    # who waits for room and has reserved nothing, in order of attempts, and the next one of the same leaf
    cdef int64_t[::1] failed, next_failed, first_failed, last_failed
    cdef double[:, ::1] allocated_after

    cdef Py_ssize_t n_quotas, n_resources, n_classes, width, main
    cdef Py_ssize_t n_reservations, n_groups, n_failed
    cdef int64_t now_s, starvation_after_s, attempts, n_in_turn, n_named
    cdef bint holds_back, backfills, first_failure

    # -- the order between quotas (SEMANTICS 5) --------------------------------------------------------

    cdef int rekey(self, Py_ssize_t node, int64_t row) except -1 nogil:
        """Set the key of a quota for its candidate: (a) to (e)."""
        cdef Py_ssize_t i
        cdef double used, share, worst = 0.0
        cdef bint over_deserved = False, over_share = False, has_share = False
        for i in range(self.n_resources):
            used = self.allocated[node, i] + self.need[row, self.resources[i]]
            share = self.fair_share[node, i]
            over_deserved |= used > self.deserved[node, i]
            over_share |= used > share
            share = max(share, self.deserved[node, i])
            if share > 0.0:
                has_share = True
                worst = max(worst, used / share)
            elif used > 0.0:
                worst = NO_SHARE
        if self.promised[row]:
            over_share, has_share, worst = False, True, 0.0
        self.candidate[node] = row
        self.since_s[node] = self.order_s[row]
        self.tier[node] = 2 * over_deserved + over_share
        self.ratio[node] = worst if has_share else NO_SHARE
        return 0

    cdef bint before(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Tell whether quota a goes before its sibling b."""
        if self.tier[a] != self.tier[b]:
            return self.tier[a] < self.tier[b]
        if self.turn[a] != self.turn[b]:
            return self.turn[a] < self.turn[b]
        if self.ratio[a] != self.ratio[b]:
            return self.ratio[a] < self.ratio[b]
        if self.since_s[a] != self.since_s[b]:
            return self.since_s[a] < self.since_s[b]
        return self.name_rank[a] < self.name_rank[b]

    cdef int sink(self, Py_ssize_t parent, int64_t at) except -1 nogil:
        """Restore the heap of a quota's children from one place downwards."""
        cdef int64_t base = self.first[parent], n = self.size[parent]
        cdef int64_t child, moving = self.heap[base + at]
        while 2 * at + 1 < n:
            child = 2 * at + 1
            if child + 1 < n and self.before(self.heap[base + child + 1], self.heap[base + child]):
                child += 1
            if not self.before(self.heap[base + child], moving):
                break
            self.heap[base + at] = self.heap[base + child]
            at = child
        self.heap[base + at] = moving
        return 0

    cdef Py_ssize_t above(self, Py_ssize_t node) except -1 nogil:
        """Return a quota's parent; the root stands behind the last quota."""
        return self.parent[node] if self.parent[node] >= 0 else self.n_quotas

    cdef int heapify(self, Py_ssize_t parent) except -1 nogil:
        """Make a heap of a quota's children."""
        cdef int64_t at
        for at in range(self.size[parent] // 2 - 1, -1, -1):
            self.sink(parent, at)
        return 0

    cdef int plant(self) except -1 nogil:
        """Make all heaps; a parent stands before its children, so the last ones come first."""
        cdef Py_ssize_t node, parent
        for node in range(self.n_quotas - 1, -1, -1):
            self.heapify(node)
            if self.size[node] > 0:
                self.rekey(node, self.candidate[self.heap[self.first[node]]])
            elif self.head[node] < self.stop[node]:
                self.rekey(node, self.line[self.head[node]])
            else:
                continue
            parent = self.above(node)
            self.heap[self.first[parent] + self.size[parent]] = node
            self.size[parent] += 1
        return self.heapify(self.n_quotas)

    cdef int settle(self, Py_ssize_t leaf) except -1 nogil:
        """Bring the path of the leaf just tried up to date: it is the top of every heap on it."""
        cdef Py_ssize_t parent, node = leaf
        cdef bint alive = self.head[leaf] < self.stop[leaf]
        cdef int64_t row = self.line[self.head[leaf]] if alive else -1
        while node != self.n_quotas:
            parent = self.above(node)
            if alive:
                self.rekey(node, row)
            else:
                self.size[parent] -= 1
                self.heap[self.first[parent]] = self.heap[self.first[parent] + self.size[parent]]
            alive = self.size[parent] > 0
            if alive:
                self.sink(parent, 0)
                row = self.candidate[self.heap[self.first[parent]]]
            node = parent
        return 0

    # -- does it fit? (SEMANTICS 3) --------------------------------------------------------------------

    cdef bint within_limits(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether the path to the root can bear one task more."""
        cdef Py_ssize_t i, node = leaf
        cdef int64_t more
        if not self.limited[leaf]:
            return True
        while node >= 0:
            for i in range(self.n_resources):
                more = self.need[row, self.resources[i]]
                if more > 0 and self.allocated[node, i] + more > self.limit[node, i]:
                    return False
            node = self.parent[node]
        return True

    cdef int64_t bearable(self, Py_ssize_t leaf, int64_t row, int64_t most) except -1 nogil:
        """Return how many tasks more the path to the root can bear, at most so many."""
        cdef Py_ssize_t i, node = leaf
        cdef int64_t need
        cdef double left
        if not self.limited[leaf]:
            return most
        while node >= 0:
            for i in range(self.n_resources):
                need = self.need[row, self.resources[i]]
                left = self.limit[node, i] - self.allocated[node, i]
                if need > 0 and left < <double> (need * most):
                    most = <int64_t> floor(max(left, 0.0) / need)
            node = self.parent[node]
        return most

    cdef bint entitled(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether the leaf and all quotas above would stay within their shares."""
        cdef Py_ssize_t i, node = leaf
        while node >= 0:
            for i in range(self.n_resources):
                if self.allocated[node, i] + self.need[row, self.resources[i]] > self.entitlement[node, i]:
                    return False
            node = self.parent[node]
        return True

    cdef bint deserves(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether the leaf and all quotas above would stay within what they deserve."""
        cdef Py_ssize_t i, node = leaf
        while node >= 0:
            for i in range(self.n_resources):
                if self.allocated[node, i] + self.need[row, self.resources[i]] > self.deserved[node, i]:
                    return False
            node = self.parent[node]
        return True

    cdef int64_t within(self, const int64_t[::1] by_class, uint64_t classes) except -1 nogil:
        """Return the sum over some classes of nodes."""
        cdef Py_ssize_t c
        cdef int64_t total = 0
        for c in range(self.n_classes):
            if classes >> c & 1:
                total += by_class[c]
        return total

    cdef bint has_capacity(self, int64_t row) except -1 nogil:
        """Tell whether enough is free, counted over the pool and over the entry's classes of nodes."""
        cdef Py_ssize_t r
        for r in range(3):
            if self.need[row, r] > 0 and self.need[row, r] > self.free[r]:
                return False
        return self.need[row, self.main] <= self.within(self.class_free, self.classes[row])

    cdef int64_t a_node(self, int64_t row) except -1 nogil:
        """Return the units of the main resource that one node has to give."""
        cdef int64_t nodes = max(self.nodes[row], 1)
        return (self.need[row, self.main] + nodes - 1) // nodes

    cdef bint has_nodes(self, int64_t row) except -1 nogil:
        """Tell whether enough nodes have enough free each."""
        cdef Py_ssize_t c
        cdef int64_t units = self.a_node(row), found = 0
        if units >= self.width:
            return False
        for c in range(self.n_classes):
            if self.classes[row] >> c & 1:
                found += self.at_least[c, units]
        return found >= max(self.nodes[row], 1)

    cdef int verdict(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Return the outcome of trying the entry now, cheapest test first."""
        if not self.within_limits(leaf, row):
            return LIMIT
        if not self.has_capacity(row):
            return CAPACITY
        if self.unplaced[row] or not self.has_nodes(row):
            return PLACEMENT
        return HELD_BACK if self.held_back(leaf, row) else STARTS

    # -- hold-back (SEMANTICS 5) -----------------------------------------------------------------------

    cdef bint held_back(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether the entry must leave room for what other leaves have reserved."""
        if not self.others_reserved(leaf) or not self.in_the_way(leaf, row) or self.promised[row]:
            return False
        if self.entitled(leaf, row) and (not self.others_promised(leaf, row) or self.deserves(leaf, row)):
            return False
        return not (self.backfills and self.ends_in_time(leaf, row))

    cdef bint others_reserved(self, Py_ssize_t leaf) except -1 nogil:
        """Tell whether a leaf other than this one holds a reservation."""
        return self.n_reservations > (self.reservation[leaf] >= 0)

    cdef bint others_promised(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether another leaf was promised nodes that the entry may use, in an earlier pass."""
        cdef Py_ssize_t i
        cdef int64_t other
        if not self.promised_classes & self.classes[row]:
            return False
        for i in range(self.n_reservations):
            other = self.reservation[self.reserving[i]]
            if self.reserving[i] != leaf and self.promised[other] and self.classes[other] & self.classes[row]:
                return True
        return False

    cdef int64_t own(self, Py_ssize_t leaf, uint64_t classes, bint inside, Py_ssize_t r) except -1 nogil:
        """Return what the leaf itself has reserved within, or at least partly within, the classes."""
        cdef int64_t row = self.reservation[leaf]
        if row < 0 or not touches(self.classes[row], classes, inside):
            return 0
        return self.need[row, r]

    cdef int64_t claims(self, Py_ssize_t leaf, uint64_t classes, bint inside, Py_ssize_t r) except -1 nogil:
        """Return what other leaves have reserved within, or at least partly within, the classes."""
        cdef Py_ssize_t g
        cdef int64_t total = -self.own(leaf, classes, inside, r)
        for g in range(self.n_groups):
            if touches(self.group_classes[g], classes, inside):
                total += self.group_sum[g, r]
        return total

    cdef int64_t claims_exactly(self, Py_ssize_t leaf, Py_ssize_t g) except -1 nogil:
        """Return what other leaves have reserved of the main resource in just the classes of a group."""
        cdef int64_t row = self.reservation[leaf]
        if row >= 0 and self.classes[row] == self.group_classes[g]:
            return self.group_sum[g, self.main] - self.need[row, self.main]
        return self.group_sum[g, self.main]

    cdef bint in_the_way(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether the entry could take what another leaf has reserved.

        Which of its classes Slurm would pick is unknown, so every set of classes that is reserved and
        that the entry may use must keep enough for the reservations inside it.
        """
        cdef Py_ssize_t r, g
        cdef int64_t claimed, left
        for r in range(3):
            if r == self.main or self.need[row, r] == 0:
                continue
            claimed = self.claims(leaf, self.classes[row], False, r)
            if claimed > 0 and self.free[r] - self.need[row, r] < claimed:
                return True
        if self.need[row, self.main] == 0:
            return False
        for g in range(self.n_groups):
            if self.group_classes[g] & self.classes[row] and self.claims_exactly(leaf, g) > 0:
                claimed = self.claims(leaf, self.group_classes[g], True, self.main)
                left = self.within(self.class_free, self.group_classes[g]) - self.need[row, self.main]
                if left < claimed:
                    return True
        return False

    cdef int64_t in_the_way_of(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Return the row that an entry is held back for.

        Of the reservations of other leaves that share nodes with it, in the order in which they were made:
        the first whose room would not be left; for an entry within its share, the first that was promised.
        """
        cdef Py_ssize_t i, r, g, first = self.n_reservations
        cdef int64_t other
        if self.others_promised(leaf, row) and self.entitled(leaf, row):
            for i in range(self.n_reservations):
                other = self.reservation[self.reserving[i]]
                if self.reserving[i] == leaf or not self.promised[other]:
                    continue
                if self.claim_classes[i] & self.classes[row]:
                    return other
        for r in range(3):
            if r != self.main and self.need[row, r] > 0:
                first = min(first, self.first_short(leaf, row, self.classes[row], False, r, self.free[r]))
        for g in range(self.n_groups):
            if self.need[row, self.main] > 0 and self.group_classes[g] & self.classes[row]:
                if self.claims_exactly(leaf, g) > 0:
                    first = min(first, self.first_short(
                        leaf, row, self.group_classes[g], True, self.main,
                        self.within(self.class_free, self.group_classes[g]),
                    ))
        return self.reservation[self.reserving[first]]

    cdef Py_ssize_t first_short(
        self, Py_ssize_t leaf, int64_t row, uint64_t classes, bint inside, Py_ssize_t r, int64_t free
    ) except -1 nogil:
        """Return which reservation the entry would leave too little for, counting them as they were made.

        Those count that lie within, or at least partly within, the classes; the one named shares nodes with
        the entry. Returns how many reservations there are if the entry leaves enough for all.
        """
        cdef int64_t left = free - self.need[row, r], claimed = 0
        cdef int64_t total = self.claims(leaf, classes, inside, r)
        cdef Py_ssize_t i, last = -1
        if total <= max(left, 0):
            return self.n_reservations
        if 2 * left > total:  # from the nearer end
            last, claimed = self.n_reservations, total
            while claimed > left:
                last -= 1
                claimed -= self.claim_of(leaf, last, classes, inside, r)
        else:
            while claimed <= left:
                last += 1
                claimed += self.claim_of(leaf, last, classes, inside, r)
        for i in range(last, -1, -1):
            if self.claim_classes[i] & self.classes[row] and self.claim_of(leaf, i, classes, inside, r) > 0:
                return i
        for i in range(last + 1, self.n_reservations):  # one of those behind does, else none would count
            if self.claim_classes[i] & self.classes[row] and self.claim_of(leaf, i, classes, inside, r) > 0:
                last = i
                break
        return last

    cdef int64_t claim_of(
        self, Py_ssize_t leaf, Py_ssize_t i, uint64_t classes, bint inside, Py_ssize_t r
    ) except -1 nogil:
        """Return what another leaf's reservation claims within, or at least partly within, the classes."""
        if self.reserving[i] == leaf or not touches(self.claim_classes[i], classes, inside):
            return 0
        return self.claim[r, i]

    cdef bint ends_in_time(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Tell whether the entry ends before any reservation that it touches could be served."""
        cdef Py_ssize_t i
        cdef int64_t other, holder
        for i in range(self.n_reservations):
            other = self.reserving[i]
            holder = self.reservation[other]
            if other == leaf or not self.classes[holder] & self.classes[row]:
                continue
            if self.shadow_s[other] < 0:
                self.shadow_s[other] = self.earliest_s(holder)
            if self.now_s + self.time_limit_s[row] > self.shadow_s[other]:
                return False
        return True

    cdef int64_t earliest_s(self, int64_t row) except -1 nogil:
        """Return when the entry's need could be free, judged from the ends of running jobs.

        What was free before the pass counts as free: whatever this pass starts can only give it back.
        """
        cdef Py_ssize_t i, r
        cdef int64_t free[3]
        cdef int64_t inside = self.within(self.class_free_before, self.classes[row])
        for r in range(3):
            free[r] = self.free_before[r]
        for i in range(-1, self.end_by_s.shape[0]):
            if i >= 0:
                for r in range(3):
                    free[r] += self.held[i, r]
                if self.held_classes[i] & self.classes[row]:
                    inside += self.held[i, self.main]
            if (
                self.need[row, 0] <= free[0]
                and self.need[row, 1] <= free[1]
                and self.need[row, 2] <= free[2]
                and self.need[row, self.main] <= inside
            ):
                return self.now_s if i < 0 else self.end_by_s[i]
        return FOREVER_S

    cdef int reserve(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Keep the entry's need for the rest of the pass, if the pool can hold it beside the others."""
        cdef Py_ssize_t r, g = 0
        for r in range(3):
            if self.reserved_sum[r] + self.need[row, r] > self.capacity[r]:
                return 0
        while g < self.n_groups and self.group_classes[g] != self.classes[row]:
            g += 1
        if g == self.n_groups:
            self.group_classes[g] = self.classes[row]
            self.n_groups += 1
        for r in range(3):
            self.reserved_sum[r] += self.need[row, r]
            self.group_sum[g, r] += self.need[row, r]
        if self.promised[row]:
            self.promised_classes |= self.classes[row]
        for r in range(3):
            self.claim[r, self.n_reservations] = self.need[row, r]
        self.claim_classes[self.n_reservations] = self.classes[row]
        self.reserving[self.n_reservations] = leaf
        self.n_reservations += 1
        self.reservation[leaf] = row
        self.reserved[row] = 1
        return 0

    # -- one attempt -----------------------------------------------------------------------------------

    cdef int charge(self, Py_ssize_t leaf, int64_t row, int64_t times) except -1 nogil:
        """Charge tasks of the entry to the leaf and all quotas above."""
        cdef Py_ssize_t i, node = leaf
        while node >= 0:
            for i in range(self.n_resources):
                self.allocated[node, i] += self.need[row, self.resources[i]] * times
            node = self.parent[node]
        return 0

    cdef int place(self, int64_t row) except -1 nogil:
        """Take one task's room, from the nodes that have the least to spare."""
        cdef Py_ssize_t c, r
        cdef int64_t units = self.a_node(row), left = max(self.nodes[row], 1), level, some, f
        for r in range(3):
            self.free[r] -= self.need[row, r]
        if units == 0:
            return 0
        for level in range(units, self.width):
            for c in range(self.n_classes):
                if not self.classes[row] >> c & 1:
                    continue
                some = self.at_least[c, level]
                if level + 1 < self.width:
                    some -= self.at_least[c, level + 1]
                some = min(some, left)
                if some == 0:
                    continue
                for f in range(level - units + 1, level + 1):
                    self.at_least[c, f] -= some
                self.class_free[c] -= some * units
                left -= some
            if left == 0:
                break
        return 0

    cdef int call_up(self, Py_ssize_t leaf) except -1 nogil:
        """Have an entry of the near future brought into the cache: waiting for that is most of a pass."""
        cdef int64_t row
        if self.head[leaf] + AHEAD < self.stop[leaf]:
            row = self.line[self.head[leaf] + AHEAD]
            prefetch(&self.need[row, 0])
            prefetch(&self.nodes[row])
            prefetch(&self.classes[row])
            prefetch(&self.order_s[row])
            prefetch(&self.time_limit_s[row])
            prefetch(&self.unplaced[row])
            prefetch(&self.closes[row])
            prefetch(&self.attempt[row])
            prefetch(&self.outcome[row])
        return 0

    cdef Py_ssize_t lane_of(self, int64_t row) except -1 nogil:
        """Return the entry's lane, without a look at it where there is but one."""
        return self.lane[row] if self.closed_by.shape[1] > 1 else 0

    cdef int pass_over(self, Py_ssize_t leaf) except -1 nogil:
        """Move on to the leaf's next entry whose lane is open."""
        cdef int64_t row, by
        while self.head[leaf] < self.stop[leaf]:
            row = self.line[self.head[leaf]]
            by = self.closed_by[leaf, self.lane_of(row)]
            if by < 0:
                break
            self.blocker[row] = by
            self.head[leaf] += 1
        return 0

    cdef int close(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Close what a failed attempt of the entry closes."""
        cdef uint8_t code = self.closes_fresh[row] if self.begun[leaf] > 0 else self.closes[row]
        cdef Py_ssize_t lane = self.lane_of(row)
        cdef int64_t i
        self.begun[leaf] = 0
        self.head[leaf] += 1
        if code == CLOSES_QUOTA:
            for i in range(self.head[leaf], self.stop[leaf]):
                self.blocker[self.line[i]] = row
            self.head[leaf] = self.stop[leaf]
            return 0
        self.failures[leaf, lane] += 1
        if code == CLOSES_LANE or self.failures[leaf, lane] == self.max_window[leaf]:
            self.closed_by[leaf, lane] = row
        self.pass_over(leaf)
        return 0

    cdef int fail(self, Py_ssize_t leaf, int64_t row, int reason) except -1 nogil:
        """Note the reason, reserve where the leaf is owed the need, close what the policy says."""
        cdef bint guarded
        if reason == CAPACITY or reason == PLACEMENT:
            guarded = (
                self.first_failure
                and self.starvation_after_s > 0
                and self.now_s - self.waiting_since_s[row] >= self.starvation_after_s
            )
            self.first_failure = False
            if self.holds_back and self.reservation[leaf] < 0:
                if guarded or self.promised[row] or self.entitled(leaf, row):
                    self.reserve(leaf, row)
            if not self.reserved[row]:
                self.note_failed(leaf, row)
        self.outcome[row] = STARTS if self.begun[leaf] > 0 else reason
        if self.outcome[row] == HELD_BACK and self.n_named < MOST_NAMED:
            self.blocker[row] = self.in_the_way_of(leaf, row)
            self.n_named += 1
        self.close(leaf, row)
        return 0

    cdef int note_failed(self, Py_ssize_t leaf, int64_t row) except -1 nogil:
        """Put the entry behind those of its leaf that wait for room and have reserved nothing."""
        self.failed[self.n_failed] = row
        self.next_failed[self.n_failed] = -1
        if self.first_failed[leaf] < 0:
            self.first_failed[leaf] = self.n_failed
        else:
            self.next_failed[self.last_failed[leaf]] = self.n_failed
        self.last_failed[leaf] = self.n_failed
        self.n_failed += 1
        return 0

    cdef int attempt_one(self, Py_ssize_t leaf) except -1 nogil:
        """Try the leaf's candidate."""
        cdef int64_t row = self.line[self.head[leaf]]
        cdef int reason
        self.call_up(leaf)
        reason = self.verdict(leaf, row)
        self.attempt[row] = self.attempts
        self.attempts += 1
        if reason != STARTS:
            return self.fail(leaf, row, reason)
        self.charge(leaf, row, 1)
        self.place(row)
        self.begun[leaf] += 1
        self.starts[row] = self.begun[leaf]
        if self.begun[leaf] >= self.tasks[row]:
            self.outcome[row] = STARTS
            self.begun[leaf] = 0
            self.head[leaf] += 1
            self.pass_over(leaf)
        return 0

    # -- the pass --------------------------------------------------------------------------------------

    cdef int number(self) except -1 nogil:
        """Number the entries of each leaf from 1."""
        cdef Py_ssize_t leaf
        cdef int64_t i
        for leaf in range(self.n_quotas):
            for i in range(self.head[leaf], self.stop[leaf]):
                self.position[self.line[i]] = i - self.head[leaf] + 1
        return 0

    cdef int run(self) except -1 nogil:
        """Try candidates until no leaf has one."""
        cdef Py_ssize_t node
        self.number()
        self.plant()
        while self.size[self.n_quotas] > 0:
            node = self.heap[self.first[self.n_quotas]]
            while self.size[node] > 0:
                node = self.heap[self.first[node]]
            self.attempt_one(node)
            self.settle(node)
        return 0

    cdef int foresee(self) except -1 nogil:
        """Note when there could be room for each entry that has reserved, where that is known."""
        cdef Py_ssize_t i, leaf
        for i in range(self.n_reservations if self.backfills else 0):
            leaf = self.reserving[i]
            if self.shadow_s[leaf] < 0:
                self.shadow_s[leaf] = self.earliest_s(self.reservation[leaf])
            self.room_s[self.reservation[leaf]] = self.shadow_s[leaf]
        return 0

    cdef int open_waiting(self) except -1 nogil:
        """Open what may start as soon as there is room, holders of reservations first, then quotas in turn.

        As far as the limits bear all that is open, and where it does not take what is reserved. Slurm fills
        what becomes free between two passes: each entry is charged as if it had started, so that equal
        quotas share that. What is further down than the whole pool is large, or than Slurm looks, keeps the
        order of attempts.
        """
        cdef Py_ssize_t i, leaf
        cdef int64_t row, units = 0
        for i in range(self.n_reservations):
            row = self.reservation[self.reserving[i]]
            self.open_tasks(row, self.bearable(self.reserving[i], row, self.tasks[row] - self.starts[row]))
        for leaf in range(self.n_quotas):
            self.head[leaf] = self.first_failed[leaf] if self.first_failed[leaf] >= 0 else self.n_failed
            self.stop[leaf] = self.n_failed
        self.plant()
        while self.size[self.n_quotas] > 0 and self.n_in_turn < MOST_IN_TURN:
            if units >= self.capacity[self.main]:
                break
            leaf = self.heap[self.first[self.n_quotas]]
            while self.size[leaf] > 0:
                leaf = self.heap[self.first[leaf]]
            i = self.head[leaf]
            row = self.failed[i]
            self.open_if_free(row)
            units += max(self.need[row, self.main] * self.more[row], 1)
            self.place_open[row] = self.n_in_turn
            self.n_in_turn += 1
            self.failed[i] = -1
            self.head[leaf] = self.next_failed[i] if self.next_failed[i] >= 0 else self.n_failed
            self.settle(leaf)
        for i in range(self.n_failed):
            if i + AHEAD < self.n_failed and self.failed[i + AHEAD] >= 0:
                row = self.failed[i + AHEAD]
                prefetch(&self.need[row, 0])
                prefetch(&self.classes[row])
                prefetch(&self.leaf[row])
                prefetch(&self.tasks[row])
                prefetch(&self.starts[row])
            if self.failed[i] >= 0:
                self.open_if_free(self.failed[i])
        return 0

    cdef int open_if_free(self, int64_t row) except -1 nogil:
        """Open what may start of an entry that waits for room without a reservation."""
        cdef Py_ssize_t leaf = self.leaf[row]
        cdef int64_t left = self.bearable(leaf, row, self.tasks[row] - self.starts[row])
        if left > 0 and not self.held_back(leaf, row):
            self.open_tasks(row, left)
        return 0

    cdef int open_tasks(self, int64_t row, int64_t tasks) except -1 nogil:
        """Open tasks that wait for room, and charge them as if they had started."""
        self.more[row] = tasks
        return self.charge(self.leaf[row], row, tasks)

    # -- what it is given ------------------------------------------------------------------------------

    def take_entries(self, queue, judged, line):
        """Take the queue, what the policies say about it, and the order inside each leaf."""
        self.need = queue.need
        self.leaf = queue.leaf
        self.nodes = queue.nodes
        self.tasks = queue.tasks
        self.order_s = queue.order_s
        self.waiting_since_s = queue.waiting_since_s
        self.time_limit_s = queue.time_limit_s
        self.classes = queue.classes
        self.unplaced = queue.unplaced.view("u1")
        self.promised = queue.promised.view("u1")
        self.closes = judged.closes
        self.closes_fresh = judged.closes_fresh
        self.lane = judged.lane
        self.line = line.rows
        self.head = line.head
        self.stop = line.stop

    def take_quotas(self, tree, standing):
        """Take the tree of quotas, what each holds and what each is owed."""
        self.n_quotas = tree.parent.shape[0]
        self.n_resources = tree.resources.shape[0]
        self.parent = tree.parent
        self.turn = tree.turn
        self.name_rank = tree.name_rank
        self.limited = tree.limited
        self.resources = tree.resources
        self.main = tree.resources[0]
        self.deserved = tree.deserved
        self.limit = tree.limit
        self.first = tree.first
        self.max_window = tree.max_window
        self.allocated = standing.allocated
        self.fair_share = standing.fair_share
        self.entitlement = standing.entitlement

    def take_room(self, room, running, rules):
        """Take what is free, what will be, and how reservations are made."""
        self.n_classes = room.at_least.shape[0]
        self.width = room.at_least.shape[1]
        self.capacity = room.capacity
        self.free_before = room.free_before
        self.class_free_before = room.class_free_before
        self.free = room.free
        self.class_free = room.class_free
        self.at_least = room.at_least
        self.end_by_s = running.end_by_s
        self.held = running.held
        self.held_classes = running.classes
        self.now_s = rules.now_s
        self.holds_back = rules.holds_back
        self.backfills = rules.backfills
        self.starvation_after_s = rules.starvation_after_s
        self.first_failure = True
        self.promised_classes = 0

    def take_paper(self, paper, result):
        """Take the arrays to work and to write on."""
        self.heap = paper.heap
        self.size = paper.size
        self.candidate = paper.candidate
        self.since_s = paper.since_s
        self.tier = paper.tier
        self.ratio = paper.ratio
        self.reservation = paper.reservation
        self.reserving = paper.reserving
        self.shadow_s = paper.shadow_s
        self.reserved_sum = paper.reserved_sum
        self.claim_classes = paper.claim_classes
        self.claim = paper.claim
        self.group_classes = paper.group_classes
        self.group_sum = paper.group_sum
        self.closed_by = paper.closed_by
        self.failures = paper.failures
        self.begun = paper.begun
        self.failed = paper.failed
        self.next_failed = paper.next_failed
        self.first_failed = paper.first_failed
        self.last_failed = paper.last_failed
        self.outcome = result.outcome
        self.reserved = result.reserved
        self.more = result.more
        self.starts = result.starts
        self.attempt = result.attempt
        self.place_open = result.place_open
        self.blocker = result.blocker
        self.room_s = result.room_s
        self.position = result.position
        self.allocated_after = result.allocated


def make_pass(queue, judged, line, tree, standing, room, running, rules, paper, result):
    """Make one pass and fill `result`; `slurmfair.walk` says what the arguments hold."""
    cdef Walk w = Walk()
    w.take_entries(queue, judged, line)
    w.take_quotas(tree, standing)
    w.take_room(room, running, rules)
    w.take_paper(paper, result)
    with nogil:
        w.run()
        w.allocated_after[:, :] = w.allocated
        w.foresee()
    w.line = w.failed
    with nogil:
        w.open_waiting()


def find_parked(
    queue, room, quotas, double[:, ::1] path_limit, const uint8_t[::1] blocks, uint8_t[::1] parked
):
    """Write 1 for each entry that can never fit into the limits on its path or into the configured pool.

    `path_limit` comes as a copy of the quotas' limits and becomes the tightest on each path. Quotas
    that have `blocks` set park nobody.
    """
    cdef const int64_t[:, ::1] need = queue.need
    cdef const int64_t[::1] nodes = queue.nodes
    cdef const uint64_t[::1] classes = queue.classes
    cdef const int32_t[::1] leaf = queue.leaf
    cdef const int32_t[::1] parent = quotas.parent
    cdef const int64_t[::1] configured = room.configured
    cdef const int64_t[::1] class_configured = room.class_configured
    cdef const int64_t[::1] class_nodes = room.class_nodes
    cdef const int64_t[::1] class_node_size = room.class_node_size
    cdef Py_ssize_t resources[3]
    cdef Py_ssize_t row, i, c, n_resources = len(quotas.resources), main = quotas.resources[0]
    cdef int64_t units, inside, found, wanted
    cdef bint never
    for i in range(n_resources):
        resources[i] = quotas.resources[i]
    with nogil:
        for row in range(parent.shape[0]):
            for i in range(n_resources):
                if parent[row] >= 0:
                    path_limit[row, i] = min(path_limit[row, i], path_limit[parent[row], i])
        for row in range(need.shape[0]):
            never = False
            for i in range(n_resources):
                never |= need[row, resources[i]] > path_limit[leaf[row], i]
            for i in range(3):
                never |= need[row, i] > configured[i]
            wanted = max(nodes[row], 1)
            units = (need[row, main] + wanted - 1) // wanted
            inside = found = 0
            for c in range(class_nodes.shape[0]):
                if classes[row] >> c & 1:
                    inside += class_configured[c]
                    if class_node_size[c] >= units:
                        found += class_nodes[c]
            never |= need[row, main] > inside or found < wanted
            parked[row] = never and not blocks[leaf[row]]
