"""Our own edge to accounting: every run of every job, which pyslurm cannot ask for; no GIL during a call.

Also the rights of users, which slurmctld knows. As for _jobs: import pyslurm first.
"""

from libc.errno cimport errno
from libc.string cimport memset

cdef extern from *:
    """
    #include <slurm/slurm.h>
    #include <slurm/slurm_errno.h>
    #include <slurm/slurmdb.h>

    /* Exported by every libslurmfull; some releases declare them, with a type of their own for lists. */
    extern void *slurmfair_list_create(void *) __asm__("slurm_list_create");
    extern void slurmfair_list_append(void *, void *) __asm__("slurm_list_append");
    extern void slurmfair_list_destroy(void *) __asm__("slurm_list_destroy");
    extern int slurmfair_list_count(void *) __asm__("slurm_list_count");
    extern void *slurmfair_iterator_create(void *) __asm__("slurm_list_iterator_create");
    extern void slurmfair_iterator_destroy(void *) __asm__("slurm_list_iterator_destroy");
    extern void *slurmfair_list_next(void *) __asm__("slurm_list_next");
    """
    void *slurmfair_list_create(void *destructor) nogil
    void slurmfair_list_append(void *items, void *item) nogil
    void slurmfair_list_destroy(void *items) nogil
    int slurmfair_list_count(void *items) nogil
    void *slurmfair_iterator_create(void *items) nogil
    void slurmfair_iterator_destroy(void *iterator) nogil
    void *slurmfair_list_next(void *iterator) nogil

    ctypedef struct slurmdb_job_cond_t:
        void *cluster_list
        unsigned int db_flags
        unsigned int flags
        long long usage_end
        long long usage_start

    ctypedef struct slurmdb_job_rec_t:
        char *account
        unsigned int alloc_nodes
        unsigned int array_job_id
        unsigned int array_task_id
        unsigned long long db_index
        long long end
        unsigned int jobid
        char *jobname
        char *partition
        unsigned int qosid
        long long start
        unsigned int state
        long long submit
        unsigned int suspended
        char *tres_alloc_str
        unsigned int uid
        char *user

    ctypedef struct slurmdb_tres_cond_t:
        pass

    ctypedef struct slurmdb_tres_rec_t:
        unsigned int id
        char *name
        char *type

    ctypedef struct slurmdb_qos_cond_t:
        pass

    ctypedef struct slurmdb_qos_rec_t:
        unsigned int id
        char *name

    ctypedef struct slurmdb_coord_rec_t:
        char *name

    ctypedef struct slurmdb_user_rec_t:
        int admin_level
        void *coord_accts
        char *name

    ctypedef struct assoc_mgr_info_request_msg_t:
        unsigned int flags

    ctypedef struct assoc_mgr_info_msg_t:
        void *user_list

    void *slurmdb_connection_get(unsigned short *flags) nogil
    int slurmdb_connection_close(void **connection) nogil
    void *slurmdb_jobs_get(void *connection, slurmdb_job_cond_t *condition) nogil
    void slurmdb_init_tres_cond(slurmdb_tres_cond_t *condition, bint free_it) nogil
    void *slurmdb_tres_get(void *connection, slurmdb_tres_cond_t *condition) nogil
    void *slurmdb_qos_get(void *connection, slurmdb_qos_cond_t *condition) nogil
    int slurm_load_assoc_mgr_info(assoc_mgr_info_request_msg_t *wanted, assoc_mgr_info_msg_t **got) nogil
    void slurm_free_assoc_mgr_info_msg(assoc_mgr_info_msg_t *answer) nogil
    char *slurm_strerror(int number)

    const unsigned int SLURMDB_JOB_FLAG_NOTSET
    const unsigned int JOBCOND_FLAG_DUP
    const unsigned int JOBCOND_FLAG_NO_STEP
    const unsigned int JOBCOND_FLAG_NO_TRUNC
    const unsigned int ASSOC_MGR_INFO_FLAG_USERS
    const int SLURMDB_ADMIN_OPERATOR
    const int SLURMDB_ADMIN_SUPER_USER
    const int SLURM_SUCCESS

# The rows that Runs.numbers and Runs.texts write, in order.
NUMBERS = (
    "jobid", "array_job_id", "array_task_id", "db_index", "submit", "start", "end", "suspended",
    "alloc_nodes", "state", "qosid", "uid",
)
TEXTS = ("tres_alloc_str", "user", "account", "partition", "jobname")
cdef enum:
    N_NUMBERS = 12
LEVELS = {
    SLURMDB_ADMIN_OPERATOR: "Operator",
    SLURMDB_ADMIN_SUPER_USER: "Administrator",
}


def rights():
    """Return what users may do, as slurmctld knows it now: the AdminLevel of all above "None", and the
    accounts that each coordinates, those below the ones he was given included.

    Raises OSError with Slurm's number.
    """
    cdef assoc_mgr_info_request_msg_t request
    cdef assoc_mgr_info_msg_t *answer = NULL
    cdef int code, error
    memset(&request, 0, sizeof(request))
    request.flags = ASSOC_MGR_INFO_FLAG_USERS
    with nogil:
        code = slurm_load_assoc_mgr_info(&request, &answer)
        error = errno
    if code != SLURM_SUCCESS:
        raise failure(error)
    try:
        return rights_of(answer.user_list)
    finally:
        slurm_free_assoc_mgr_info_msg(answer)


cdef tuple rights_of(void *user_list):
    """Return the levels and the coordinated accounts of a list of users."""
    cdef void *place = slurmfair_iterator_create(user_list) if user_list is not NULL else NULL
    cdef slurmdb_user_rec_t *user
    levels, coordinated = {}, {}
    while place is not NULL:
        user = <slurmdb_user_rec_t *> slurmfair_list_next(place)
        if user is NULL:
            break
        if user.admin_level in (SLURMDB_ADMIN_OPERATOR, SLURMDB_ADMIN_SUPER_USER):
            levels[text(user.name)] = LEVELS[user.admin_level]
        accounts = coordinated_by(user)
        if accounts:
            coordinated[text(user.name)] = accounts
    if place is not NULL:
        slurmfair_iterator_destroy(place)
    return levels, coordinated


cdef tuple coordinated_by(slurmdb_user_rec_t *user):
    """Return the names of the accounts that a user coordinates."""
    cdef void *place = slurmfair_iterator_create(user.coord_accts) if user.coord_accts is not NULL else NULL
    cdef slurmdb_coord_rec_t *one
    names = []
    while place is not NULL:
        one = <slurmdb_coord_rec_t *> slurmfair_list_next(place)
        if one is NULL:
            break
        names.append(text(one.name))
    if place is not NULL:
        slurmfair_iterator_destroy(place)
    return tuple(names)


cdef class Accounting:
    """A connection to slurmdbd. Opening never fails; the first request may, with OSError."""

    cdef void *connection

    def __cinit__(self):
        cdef unsigned short flags = 0
        with nogil:
            self.connection = slurmdb_connection_get(&flags)

    def close(self):
        """Let go of the connection; the object cannot be used any more."""
        if self.connection is not NULL:
            with nogil:
                slurmdb_connection_close(&self.connection)
            self.connection = NULL

    def __dealloc__(self):
        self.close()

    def runs(self, str cluster, long long since_s, long long until_s):
        """Return all runs of a cluster's jobs that overlap the window, with true times, earlier ones of
        requeued jobs too."""
        cdef slurmdb_job_cond_t condition
        cdef bytes name = cluster.encode()
        cdef void *found
        cdef int error
        self.check()
        memset(&condition, 0, sizeof(condition))
        condition.usage_start, condition.usage_end = since_s, until_s
        condition.db_flags = SLURMDB_JOB_FLAG_NOTSET
        condition.flags = JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_TRUNC
        condition.cluster_list = slurmfair_list_create(NULL)
        slurmfair_list_append(condition.cluster_list, <char *> name)
        with nogil:
            found = slurmdb_jobs_get(self.connection, &condition)
            error = errno
        slurmfair_list_destroy(condition.cluster_list)
        if found is NULL:
            raise failure(error)
        return wrapped(found)

    def tres_names(self):
        """Return the names of trackable resources by number, such as {1: "cpu", 1001: "gres/gpu"}."""
        cdef slurmdb_tres_cond_t condition
        cdef void *found
        cdef int error
        self.check()
        slurmdb_init_tres_cond(&condition, False)
        with nogil:
            found = slurmdb_tres_get(self.connection, &condition)
            error = errno
        if found is NULL:
            raise failure(error)
        names = {}
        cdef void *place = slurmfair_iterator_create(found)
        cdef slurmdb_tres_rec_t *tres = <slurmdb_tres_rec_t *> slurmfair_list_next(place)
        while tres is not NULL:
            name = text(tres.name)
            names[tres.id] = f"{text(tres.type)}/{name}" if name else text(tres.type)
            tres = <slurmdb_tres_rec_t *> slurmfair_list_next(place)
        slurmfair_iterator_destroy(place)
        slurmfair_list_destroy(found)
        return names

    def qos_names(self):
        """Return the names of QOS by number."""
        cdef slurmdb_qos_cond_t condition
        cdef void *found
        cdef int error
        self.check()
        memset(&condition, 0, sizeof(condition))
        with nogil:
            found = slurmdb_qos_get(self.connection, &condition)
            error = errno
        if found is NULL:
            raise failure(error)
        names = {}
        cdef void *place = slurmfair_iterator_create(found)
        cdef slurmdb_qos_rec_t *qos = <slurmdb_qos_rec_t *> slurmfair_list_next(place)
        while qos is not NULL:
            names[qos.id] = text(qos.name)
            qos = <slurmdb_qos_rec_t *> slurmfair_list_next(place)
        slurmfair_iterator_destroy(place)
        slurmfair_list_destroy(found)
        return names

    cdef check(self):
        """Raise unless there is a connection."""
        if self.connection is NULL:
            raise OSError(-1, "no connection to slurmdbd")


cdef class Runs:
    """Runs of jobs as accounting returned them."""

    cdef void *found

    def __dealloc__(self):
        if self.found is not NULL:
            slurmfair_list_destroy(self.found)

    def __len__(self):
        return slurmfair_list_count(self.found)

    def columns(self, long long[:, ::1] out):
        """Write the columns of NUMBERS into out, shape (len(NUMBERS), len(self)); return those of TEXTS."""
        cdef Py_ssize_t i, n = slurmfair_list_count(self.found)
        if out.shape[0] != N_NUMBERS or out.shape[1] != n:
            raise ValueError(f"columns: out must have shape ({N_NUMBERS}, {n})")
        texts = tuple([[] for _ in TEXTS])
        cdef void *place = slurmfair_iterator_create(self.found)
        for i in range(n):
            write_run(<slurmdb_job_rec_t *> slurmfair_list_next(place), out, i, texts)
        slurmfair_iterator_destroy(place)
        return texts


cdef Runs wrapped(void *found):
    """Return a list of slurmdb_job_rec_t as Runs, which owns it."""
    cdef Runs runs = Runs.__new__(Runs)
    runs.found = found
    return runs


cdef write_run(const slurmdb_job_rec_t *run, long long[:, ::1] out, Py_ssize_t i, tuple texts):
    """Copy one run."""
    out[0, i] = run.jobid
    out[1, i] = run.array_job_id
    out[2, i] = run.array_task_id
    out[3, i] = <long long> run.db_index
    out[4, i] = run.submit
    out[5, i] = run.start
    out[6, i] = run.end
    out[7, i] = run.suspended
    out[8, i] = run.alloc_nodes
    out[9, i] = run.state
    out[10, i] = run.qosid
    out[11, i] = run.uid
    texts[0].append(text(run.tres_alloc_str))
    texts[1].append(text(run.user))
    texts[2].append(text(run.account))
    texts[3].append(text(run.partition))
    texts[4].append(text(run.jobname))


cdef str text(const char *given):
    """Return a C text, "" for none."""
    return "" if given is NULL else given.decode("utf-8", "replace")


cdef object failure(int error):
    """Return the exception for one of Slurm's error numbers; slurmdbd often leaves none."""
    return OSError(error or -1, text(slurm_strerror(error or -1)))
