#include <holdfast/holdfast.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    hf_store *store, *own;
    int status;

    if (hf_open(argc > 1 ? argv[1] : NULL, NULL, &store, NULL) != HF_OK)
        return 1;
    if (fork() == 0)
        _exit(hf_close(store, 0) != HF_FORKED || hf_open(argc > 1 ? argv[1] : NULL, NULL, &own, NULL) != HF_OK ||
              hf_close(own, 0) != HF_OK);
    return wait(&status) < 0 || status != 0 || hf_close(store, 0) != HF_OK;
}
