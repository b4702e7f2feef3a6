# tools/comfyui_nodes/at_work.py: what a node does while it waits: looks for interrupts, shows text under itself, knows its job.
import queue
import threading

LOOK_S = 0.1


def job():
    """The id of the job that this node runs in."""
    try:
        from comfy_execution.utils import get_executing_context
        context = get_executing_context()
        if context is not None:
            return context.prompt_id
    except ImportError:
        pass
    from server import PromptServer
    return PromptServer.instance.last_prompt_id


def show(node, text):
    from server import PromptServer
    send = getattr(PromptServer.instance, "send_progress_text", None)
    if send is not None and node:
        send(text, node)


def stop_if_interrupted():
    import comfy.model_management
    comfy.model_management.throw_exception_if_processing_interrupted()


def waiting_for(call, keep_late, stop=stop_if_interrupted):
    """The call's answer. An interrupt breaks it off; an answer that comes all the same goes to `keep_late`. `stop` raises on an interrupt."""
    done, got = threading.Event(), {}
    left = threading.Lock()  # decides between an answer and an interrupt at the same time

    def work():
        try:
            got["answer"] = call.answer()
        except Exception as why:
            got["error"] = why
        with left:
            done.set()
            is_late = got.get("left", False)
        if is_late and "answer" in got:
            keep_late(got["answer"])

    threading.Thread(target=work, name="ebb call", daemon=True).start()
    while not done.wait(LOOK_S):
        try:
            stop()
        except BaseException:
            with left:
                got["left"] = True
                is_done = done.is_set()
            if is_done and "answer" in got:
                keep_late(got["answer"])
            call.close()
            raise
    if "error" in got:
        raise got["error"]
    return got["answer"]


def events_of(call, stop=stop_if_interrupted):
    """The call's events as they come. An interrupt, or whoever leaves the loop, breaks it off."""
    came = queue.Queue()

    def work():
        try:
            for event in call.events():
                came.put(("event", event))
            came.put(("end", None))
        except Exception as why:
            came.put(("error", why))

    threading.Thread(target=work, name="ebb call", daemon=True).start()
    try:
        while True:
            stop()
            try:
                what, value = came.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if what == "error":
                raise value
            if what == "end":
                return
            yield value
    finally:
        call.close()
