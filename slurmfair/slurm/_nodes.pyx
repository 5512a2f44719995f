"""Our own edge to Slurm for nodes and partitions; no GIL during a call. As for _jobs: import pyslurm first.

Built where slurm.h keeps a node's allocated resources in its record, which older releases do not.
"""

from libc.errno cimport errno

cdef extern from *:
    """
    #include <slurm/slurm.h>
    #include <slurm/slurm_errno.h>

    /* Exported by every libslurmfull, in no header. */
    extern char *slurmfair_state_text(unsigned int) __asm__("slurm_node_state_string_complete");
    extern void slurmfair_free(void *) __asm__("slurm_xfree_ptr");
    """
    ctypedef struct node_info_t:
        char *alloc_tres_fmt_str
        unsigned short cpus_efctv
        char *gres
        unsigned long long mem_spec_limit
        char *name
        unsigned int node_state
        char *partitions
        unsigned long long real_memory

    ctypedef struct node_info_msg_t:
        unsigned int record_count
        node_info_t *node_array

    ctypedef struct partition_info_t:
        char *name
        unsigned short priority_tier
        unsigned short state_up

    ctypedef struct partition_info_msg_t:
        unsigned int record_count
        partition_info_t *partition_array

    int slurm_load_node(long long since, node_info_msg_t **answer, unsigned int flags) nogil
    int slurm_load_partitions(long long since, partition_info_msg_t **answer, unsigned int flags) nogil
    void slurm_populate_node_partitions(node_info_msg_t *nodes, partition_info_msg_t *partitions) nogil
    void slurm_free_node_info_msg(node_info_msg_t *message) nogil
    void slurm_free_partition_info_msg(partition_info_msg_t *message) nogil
    char *slurmfair_state_text(unsigned int state) nogil
    void slurmfair_free(void *item) nogil
    char *slurm_strerror(int number)

    const unsigned int SHOW_ALL
    const unsigned int SHOW_LOCAL
    const unsigned int SHOW_MIXED
    const unsigned int PARTITION_UP
    const int SLURM_SUCCESS


def load():
    """Return all nodes and partitions; raises OSError with Slurm's number.

    A node is (name, partitions "a,b", state "MIXED+PLANNED", gres "gpu:h100:8(S:0-1)", allocated TRES, CPUs,
    MiB), without what it keeps for the system; a partition is (name, tier, up).
    """
    cdef node_info_msg_t *nodes = NULL
    cdef partition_info_msg_t *partitions = NULL
    cdef int code, error
    with nogil:
        code = slurm_load_node(0, &nodes, SHOW_ALL | SHOW_LOCAL | SHOW_MIXED)
        if code == SLURM_SUCCESS:
            code = slurm_load_partitions(0, &partitions, SHOW_ALL | SHOW_LOCAL)
        error = errno
        if code == SLURM_SUCCESS:
            slurm_populate_node_partitions(nodes, partitions)
    try:
        if code != SLURM_SUCCESS:
            raise OSError(error, slurm_strerror(error).decode("utf-8", "replace"))
        return node_rows(nodes), partition_rows(partitions)
    finally:
        if nodes is not NULL:
            slurm_free_node_info_msg(nodes)
        if partitions is not NULL:
            slurm_free_partition_info_msg(partitions)


cdef list node_rows(const node_info_msg_t *nodes):
    """Return the nodes; one without a name is configured but gone."""
    cdef Py_ssize_t i
    cdef const node_info_t *node
    states, rows = {}, []
    for i in range(nodes.record_count):
        node = &nodes.node_array[i]
        if node.name is NULL:
            continue
        if node.node_state not in states:
            states[node.node_state] = state_name(node.node_state)
        rows.append((
            text(node.name), text(node.partitions), states[node.node_state], text(node.gres),
            text(node.alloc_tres_fmt_str), node.cpus_efctv, node.real_memory - node.mem_spec_limit,
        ))
    return rows


cdef list partition_rows(const partition_info_msg_t *partitions):
    """Return the partitions."""
    cdef Py_ssize_t i
    cdef const partition_info_t *part
    rows = []
    for i in range(partitions.record_count):
        part = &partitions.partition_array[i]
        rows.append((text(part.name), part.priority_tier, part.state_up == PARTITION_UP))
    return rows


cdef str state_name(unsigned int state):
    """Return a node's state as Slurm writes it."""
    cdef char *words = slurmfair_state_text(state)
    name = text(words)
    slurmfair_free(words)
    return name


cdef str text(const char *given):
    """Return a C text, "" for none."""
    return "" if given is NULL else given.decode("utf-8", "replace")
