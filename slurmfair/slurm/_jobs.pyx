"""Our own edge to Slurm for jobs: read all of them into columns, update one; no GIL during a call.

Linked with libslurmfull, which pyslurm initialises: import pyslurm first (SLURM.md 18). Only the fields
that are used are declared, so that every release from 22.05 on compiles.
"""

from libc.errno cimport errno
from libc.stdlib cimport free, malloc
from libc.string cimport memset, strcmp

cdef extern from *:
    """
    #include <slurm/slurm.h>
    #include <slurm/slurm_errno.h>

    /* Slurm 25.11 moved the job id of an update message. */
    #if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    #define UPDATED_JOB(message) (message)->step_id.job_id
    #else
    #define UPDATED_JOB(message) (message)->job_id
    #endif

    /* Exported by every libslurmfull, in no header, and renamed once. */
    extern char *slurm_job_state_reason_string(unsigned int) __attribute__((weak));
    extern char *slurm_job_reason_string(unsigned int) __attribute__((weak));
    static char *slurmfair_reason(unsigned int number)
    {
        if (slurm_job_state_reason_string)
            return slurm_job_state_reason_string(number);
        return slurm_job_reason_string ? slurm_job_reason_string(number) : NULL;
    }
    static void slurmfair_set_job(job_desc_msg_t *message, unsigned int job_id)
    {
        UPDATED_JOB(message) = job_id;
    }
    """
    ctypedef struct slurm_job_info_t:
        char *account
        char *admin_comment
        unsigned int array_job_id
        unsigned int array_max_tasks
        unsigned int array_task_id
        char *array_task_str
        unsigned long long bitflags
        char *comment
        char *dependency
        long long eligible_time
        long long end_time
        unsigned int het_job_id
        unsigned int job_id
        unsigned int job_state
        char *name
        unsigned int nice
        char *nodes
        unsigned int num_nodes
        char *partition
        unsigned long long pn_min_memory
        long long pre_sus_time
        unsigned int priority
        char *qos
        unsigned int restart_cnt
        char *resv_name
        unsigned int shared
        unsigned int site_factor
        long long start_time
        char *state_desc
        unsigned int state_reason
        long long submit_time
        long long suspend_time
        unsigned int time_limit
        char *tres_alloc_str
        char *tres_per_job
        char *tres_per_node
        char *tres_per_socket
        char *tres_per_task
        char *tres_req_str
        unsigned int user_id
        char *user_name

    ctypedef struct job_info_msg_t:
        long long last_update
        unsigned int record_count
        slurm_job_info_t *job_array

    ctypedef struct job_desc_msg_t:
        char *admin_comment
        char *array_inx
        unsigned int priority
        unsigned int site_factor

    int slurm_load_jobs(long long since, job_info_msg_t **answer, unsigned int flags) nogil
    void slurm_free_job_info_msg(job_info_msg_t *message) nogil
    void slurm_init_job_desc_msg(job_desc_msg_t *message) nogil
    int slurm_update_job(job_desc_msg_t *message) nogil
    void slurmfair_set_job(job_desc_msg_t *message, unsigned int job_id) nogil
    char *slurmfair_reason(unsigned int number) nogil
    char *slurm_strerror(int number)
    long slurm_api_version()

    const unsigned int SLURM_VERSION_NUMBER
    const long SLURMFAIR_API_VERSION  # of the library at the time of the build, from setup.py
    const unsigned int SHOW_ALL
    const unsigned int SHOW_LOCAL
    const unsigned long long CRON_JOB
    const unsigned int NICE_OFFSET
    const unsigned long long MEM_PER_CPU
    const int SLURM_SUCCESS

# The rows that Jobs.numbers and Jobs.texts write, in order.
NUMBERS = (
    "job_id", "array_job_id", "array_task_id", "array_max_tasks", "het_job_id", "job_state", "state_reason",
    "priority", "site_factor", "nice", "submit_time", "eligible_time", "start_time", "end_time",
    "pre_sus_time", "suspend_time", "time_limit", "restart_cnt", "num_nodes", "shared", "user_id", "cron",
    "dependent", "mem_per_cpu",
)
TEXTS = (
    "state_desc", "array_task_str", "tres_req_str", "tres_alloc_str", "tres_asked", "user_name", "account",
    "partition", "qos", "name", "resv_name", "nodes", "comment", "admin_comment",
)
cdef const char *NOTHING = ""
cdef enum:
    N_NUMBERS = 24
    N_TEXTS = 14


def built_for():
    """Return the release of the headers that this module was compiled with, as (26, 5)."""
    return (SLURM_VERSION_NUMBER >> 16) & 0xff, (SLURM_VERSION_NUMBER >> 8) & 0xff


def fits_library():
    """Return whether libslurmfull is still the one of the build; structures of another one do not match."""
    return slurm_api_version() == SLURMFAIR_API_VERSION


def error_text(int number):
    """Return Slurm's own words for an error number."""
    return slurm_strerror(number).decode("utf-8", "replace")


def reason_name(unsigned int number):
    """Return the name of a numeric state reason, such as "Priority"."""
    cdef char *name = slurmfair_reason(number)
    return f"Reason{number}" if name is NULL else name.decode("utf-8", "replace")


def update(unsigned int job_id, priority=None, site_factor=None, admin_comment=None, array_tasks=None):
    """Send one update of one job record, with what is given; return Slurm's error number, 0 for success.

    The priority is Slurm's (0 holds, 4294967295 releases), the site factor may be any value including 0,
    the admin comment is bytes. `array_tasks` is the most tasks of an array that may run at once, as the bytes
    of a number, b"0" for no bound.
    """
    cdef job_desc_msg_t message
    cdef int code, error
    slurm_init_job_desc_msg(&message)
    slurmfair_set_job(&message, job_id)
    if priority is not None:
        message.priority = priority
    if site_factor is not None:
        message.site_factor = <unsigned int> (<long long> NICE_OFFSET + <long long> site_factor)
    if admin_comment is not None:
        message.admin_comment = admin_comment  # the caller's bytes outlive the call
    if array_tasks is not None:
        message.array_inx = array_tasks
    with nogil:
        code = slurm_update_job(&message)
        error = errno
    return 0 if code == SLURM_SUCCESS else error


cdef class Jobs:
    """All jobs of the cluster, as one request returned them; raises OSError with Slurm's number.

    With `since_s` Slurm answers only if a job has changed since; otherwise the error is 1900.
    """

    cdef job_info_msg_t *answer

    def __cinit__(self, long long since_s=0):
        cdef int code, error
        self.answer = NULL
        with nogil:
            code = slurm_load_jobs(since_s, &self.answer, SHOW_ALL | SHOW_LOCAL)
            error = errno
        if code != SLURM_SUCCESS:
            self.answer = NULL
            raise OSError(error, error_text(error))

    def __dealloc__(self):
        if self.answer is not NULL:
            slurm_free_job_info_msg(self.answer)

    def __len__(self):
        return self.answer.record_count

    @property
    def read_s(self):
        """When slurmctld wrote the answer, by its own clock."""
        return self.answer.last_update

    def numbers(self, long long[:, ::1] out):
        """Write the columns of NUMBERS, one a row, into out of shape (len(NUMBERS), len(self))."""
        cdef Py_ssize_t n = self.answer.record_count
        if out.shape[0] != N_NUMBERS or out.shape[1] != n:
            raise ValueError(f"numbers: out must have shape ({N_NUMBERS}, {n})")
        if n:
            with nogil:
                write_numbers(self.answer.job_array, n, &out[0, 0])

    def texts(self, int[:, ::1] out):
        """Write codes for the columns of TEXTS into out, shape (len(TEXTS), len(self)); return their values.

        The values of a column stand in the order of first sight; a text that Slurm does not have is "".
        """
        cdef Py_ssize_t n = self.answer.record_count
        cdef Py_ssize_t size = 64
        cdef Py_ssize_t[N_TEXTS] counts
        if out.shape[0] != N_TEXTS or out.shape[1] != n:
            raise ValueError(f"texts: out must have shape ({N_TEXTS}, {n})")
        if n == 0:
            return [()] * N_TEXTS
        while size < 2 * n:
            size *= 2
        cdef int *slots = <int *> malloc(N_TEXTS * size * sizeof(int))
        cdef const char **seen = <const char **> malloc(N_TEXTS * n * sizeof(char *))
        try:
            if slots is NULL or seen is NULL:
                raise MemoryError
            with nogil:
                write_codes(self.answer.job_array, n, &out[0, 0], slots, size, seen, counts)
            return [words(seen + column * n, counts[column], column) for column in range(N_TEXTS)]
        finally:
            free(slots)
            free(seen)


cdef tuple words(const char **seen, Py_ssize_t count, Py_ssize_t column):
    """Return the distinct texts of one column as Python strings."""
    if column == N_TEXTS - 1:  # the admin comment is written back, byte by byte
        return tuple([seen[i].decode("utf-8", "surrogateescape") for i in range(count)])
    return tuple([seen[i].decode("utf-8", "replace") for i in range(count)])


cdef void write_numbers(const slurm_job_info_t *jobs, Py_ssize_t n, long long *out) noexcept nogil:
    """Copy the fields of NUMBERS; the offset of nice and site factor is taken off."""
    cdef Py_ssize_t i
    cdef const slurm_job_info_t *job
    for i in range(n):
        job = &jobs[i]
        out[0 * n + i] = job.job_id
        out[1 * n + i] = job.array_job_id
        out[2 * n + i] = job.array_task_id
        out[3 * n + i] = job.array_max_tasks
        out[4 * n + i] = job.het_job_id
        out[5 * n + i] = job.job_state
        out[6 * n + i] = job.state_reason
        out[7 * n + i] = job.priority
        out[8 * n + i] = <long long> job.site_factor - <long long> NICE_OFFSET
        out[9 * n + i] = <long long> job.nice - <long long> NICE_OFFSET
        out[10 * n + i] = job.submit_time
        out[11 * n + i] = job.eligible_time
        out[12 * n + i] = job.start_time
        out[13 * n + i] = job.end_time
        out[14 * n + i] = job.pre_sus_time
        out[15 * n + i] = job.suspend_time
        out[16 * n + i] = job.time_limit
        out[17 * n + i] = job.restart_cnt
        out[18 * n + i] = job.num_nodes
        out[19 * n + i] = job.shared
        out[20 * n + i] = job.user_id
        out[21 * n + i] = (job.bitflags & CRON_JOB) != 0
        out[22 * n + i] = job.dependency is not NULL and job.dependency[0] != 0
        out[23 * n + i] = 0
        if job.pn_min_memory & MEM_PER_CPU:
            out[23 * n + i] = <long long> (job.pn_min_memory & ~MEM_PER_CPU)


cdef const char *text_of(const slurm_job_info_t *job, int column) noexcept nogil:
    """Return the field of TEXTS with this number, NOTHING where Slurm has none."""
    cdef const char *text
    if column == 0:
        text = job.state_desc
    elif column == 1:
        text = job.array_task_str
    elif column == 2:
        text = job.tres_req_str
    elif column == 3:
        text = job.tres_alloc_str
    elif column == 4:
        text = asked(job)
    elif column == 5:
        text = job.user_name
    elif column == 6:
        text = job.account
    elif column == 7:
        text = job.partition
    elif column == 8:
        text = job.qos
    elif column == 9:
        text = job.name
    elif column == 10:
        text = job.resv_name
    elif column == 11:
        text = job.nodes
    elif column == 12:
        text = job.comment
    else:
        text = job.admin_comment
    return NOTHING if text is NULL else text


cdef const char *asked(const slurm_job_info_t *job) noexcept nogil:
    """Return the form in which GPUs were asked for: its types are right, its counts may not be."""
    if job.tres_per_job is not NULL:
        return job.tres_per_job
    if job.tres_per_node is not NULL:
        return job.tres_per_node
    if job.tres_per_socket is not NULL:
        return job.tres_per_socket
    return job.tres_per_task


cdef void write_codes(
    const slurm_job_info_t *jobs, Py_ssize_t n, int *codes, int *slots, Py_ssize_t size, const char **seen,
    Py_ssize_t *counts,
) noexcept nogil:
    """Number the distinct texts of every column in order of first sight, in one walk over the records.

    Each column has its own part of `codes` and `seen` (n long) and of `slots`, an open-addressed table of
    codes whose `size` is a power of two of at least 2 n; `counts` gets the number of its texts.
    """
    cdef Py_ssize_t i
    cdef int column
    memset(slots, 0xff, N_TEXTS * size * sizeof(int))
    memset(counts, 0, N_TEXTS * sizeof(Py_ssize_t))
    for i in range(n):
        for column in range(N_TEXTS):
            write_code(
                text_of(&jobs[i], column), i, codes + column * n, slots + column * size, size,
                seen + column * n, &counts[column],
            )


cdef inline void write_code(
    const char *text, Py_ssize_t i, int *codes, int *slots, Py_ssize_t size, const char **seen,
    Py_ssize_t *count,
) noexcept nogil:
    """Write the code of one text."""
    cdef Py_ssize_t slot
    if i > 0 and strcmp(text, seen[codes[i - 1]]) == 0:  # neighbours are often alike
        codes[i] = codes[i - 1]
        return
    slot = <Py_ssize_t> (hashed(text) & <unsigned long long> (size - 1))
    while slots[slot] >= 0 and strcmp(text, seen[slots[slot]]) != 0:
        slot = (slot + 1) & (size - 1)
    if slots[slot] < 0:
        slots[slot] = <int> count[0]
        seen[count[0]] = text
        count[0] += 1
    codes[i] = slots[slot]


cdef unsigned long long hashed(const char *text) noexcept nogil:
    """Return the FNV-1a hash of a text."""
    cdef unsigned long long total = 14695981039346656037ULL
    while text[0] != 0:
        total = (total ^ <unsigned char> text[0]) * 1099511628211ULL
        text += 1
    return total ^ (total >> 32)
