"""Who stands in Slurm's window, and the fewest records whose ranks must be rewritten."""

from libc.stdint cimport int32_t, int64_t, uint8_t


def window_rows(
    const int64_t[::1] place,
    const int32_t[::1] code,
    const int32_t[::1] list_start,
    const int32_t[::1] list_of,
    int64_t window,
    int64_t capacity,
    int64_t[::1] left,
    int64_t[::1] first,
    int64_t[::1] following,
    int64_t[::1] row,
    int64_t[::1] unit,
):
    """Write the records inside the window, in order of place, into row and their unit's number into unit.

    Records of one place (a heterogeneous job) are one unit; it is inside when one of its partitions has
    shown fewer than `window` records so far, and at most `capacity` units are. `place` is -1 for a
    record without one. The partitions of code c are list_of[list_start[c]:list_start[c + 1]]. Scratch:
    left, zeros of shape (n_partitions,); first, -1 of shape (n_places,); following, shape (n,). Places
    from n_places on are not looked at. Return the number of records and of units written, and whether
    looking further could add any.
    """
    cdef Py_ssize_t i, k, p, n_rows = 0, n_units = 0, not_full = 0, n_places = first.shape[0]
    cdef bint inside
    with nogil:
        for i in range(place.shape[0] - 1, -1, -1):
            if place[i] < 0:
                continue
            for k in range(list_start[code[i]], list_start[code[i] + 1]):
                left[list_of[k]] += 1
            if place[i] < n_places:
                following[i] = first[place[i]]
                first[place[i]] = i
        for k in range(left.shape[0]):
            left[k] = min(left[k], window)
            not_full += left[k] > 0
        for p in range(n_places):
            if not_full == 0 or n_units >= capacity:
                break
            inside = False
            i = first[p]
            while i >= 0 and not inside:
                for k in range(list_start[code[i]], list_start[code[i] + 1]):
                    if left[list_of[k]] > 0:
                        inside = True
                i = following[i]
            i = first[p]
            while i >= 0:
                for k in range(list_start[code[i]], list_start[code[i] + 1]):
                    left[list_of[k]] -= 1
                    not_full -= left[list_of[k]] == 0
                if inside:
                    row[n_rows] = i
                    unit[n_rows] = n_units
                    n_rows += 1
                i = following[i]
            n_units += inside
    return n_rows, n_units, not_full > 0 and n_units < capacity


def longest_run(
    const int64_t[::1] value, int64_t[::1] tail, int64_t[::1] before, uint8_t[::1] kept
):
    """Mark in `kept` (zeros) one longest run of values that never rises; return its length. O(n log n).

    tail and before are scratch of value's shape: tail[k] is where the best run of k + 1 values ends, that
    is, the one that ends highest; before[i] is the value before i in the best run that ends with i.
    """
    cdef Py_ssize_t i, low, high, middle, length = 0
    with nogil:
        for i in range(value.shape[0]):
            low = 0
            high = length
            if length > 0 and value[i] <= value[tail[length - 1]]:
                low = length
            while low < high:
                middle = (low + high) // 2
                if value[tail[middle]] < value[i]:
                    high = middle
                else:
                    low = middle + 1
            before[i] = tail[low - 1] if low > 0 else -1
            tail[low] = i
            if low == length:
                length += 1
        i = tail[length - 1] if length > 0 else -1
        while i >= 0:
            kept[i] = 1
            i = before[i]
    return length
