"""Rule DG604: a wait that nothing can end."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class EndlessWait(Rule):
    """
    ## What it does
    Reports a wait that was proven endless by a dry run: the thread stands at a lock, a queue, an event or another
    thread, without a timeout, and every other thread of the process waits in the same way.

    ## Why is this bad?
    The program stops responding, without any error. That looks like a slow `backward()` or a hanging GPU, and is
    neither.

    ## Example
    ```python
    def step(lock):
        with lock:
            with lock:
                update()
    ```
    Use instead:
    ```python
    def step(lock):
        with lock:
            update()
    ```

    ## References
    [threading](https://docs.python.org/3/library/threading.html): a `Lock` is not reentrant, an `RLock` is.
    """

    code, name, since = "DG604", "endless-wait", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import threading

            # dry-run: lock=threading.RLock()
            def step(lock):
                with lock:
                    with lock:
                        return 1
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import threading

            # dry-run: lock=threading.Lock()
            def step(lock):
                with lock:
                    lock.acquire()
            """
        ),
        Invalid(
            """
            import queue

            # dry-run: waiting=queue.Queue()
            def step(waiting):
                return waiting.get()
            """
        ),
    ]
