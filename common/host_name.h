/* What this machine calls itself. */
#ifndef COMMON_HOST_NAME_H
#define COMMON_HOST_NAME_H

/* As gethostname has it; "" if it has none. Valid for the life of the process. */
const char *host_name(void);

#endif
