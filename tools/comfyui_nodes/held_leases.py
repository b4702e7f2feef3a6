# tools/comfyui_nodes/held_leases.py: the leases of the jobs that run, each renewed until it is returned or its job has ended.
#
# A Return node does not run after an error, an interrupt or in a branch that was left out; so a thread looks whether the job of each lease is
# still running. If ComfyUI itself ends, a lease ends with its process, and at the latest with its time.
import logging
import os
import threading
import time

from . import client

TTL_S = 60
LOOK_S = 0.5


class HeldLeases:
    """`running` gives the ids of the jobs that run now."""

    def __init__(self, running, ask=client.ask, now=time.monotonic):
        self._running, self._ask, self._now = running, ask, now
        self._lock = threading.Lock()
        self._held = {}  # lease: (job, when it is renewed)
        self._thread = None

    def wanted(self, device, mib, least_mib, wait_s):
        """The body of an acquire."""
        body = {"owner": "comfyui node", "gpu": device, "mib": mib, "ttl_s": TTL_S, "wait_s": wait_s}
        if least_mib and least_mib < mib:
            body["min_mib"] = least_mib
        if client.is_local():
            body["pid"] = os.getpid()
        return body

    @staticmethod
    def ask_for(wanted, ask):
        """ask(wanted); where Ebb does not see our process, since one of us is in a container, once more without its number."""
        try:
            return ask(wanted)
        except client.EbbError as why:
            if why.code != "bad_value" or "pid" not in wanted:  # anything else that is wrong is refused again
                raise
        logging.info("ebb: Ebb does not see this process; if it is killed, its leases end within %d s", TTL_S)
        return ask({name: value for name, value in wanted.items() if name != "pid"})

    def hold(self, job, answer):
        """An answer to an acquire; gives (lease, mib)."""
        lease = answer.get("leases", [answer])[0]
        with self._lock:
            self._held[lease["lease_id"]] = (job, self._now() + TTL_S / 3)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="ebb leases", daemon=True)
                self._thread.start()
        return lease["lease_id"], lease["mib"]

    def of(self, job):
        with self._lock:
            return [lease for lease, (of, _) in self._held.items() if of == job]

    def give_back(self, leases):
        for lease in leases:
            try:
                self._ask("DELETE", f"/v1/vram/leases/{lease}")
            except client.EbbError as why:
                if why.code not in ("unknown_lease", "no_ebb"):  # without an Ebb nothing is lent, and it ends by its time
                    logging.warning("ebb: lease %s could not be given back: %s", lease, why)
            with self._lock:
                self._held.pop(lease, None)

    def look(self):
        """Gives back what no running job holds, and renews the rest when it is due."""
        running = set(self._running())
        now = self._now()
        with self._lock:
            ended = [lease for lease, (job, _) in self._held.items() if job not in running]
            due = [(lease, job) for lease, (job, renewal) in self._held.items() if job in running and renewal <= now]
        if ended:
            logging.info("ebb: the job has ended without returning lease %s; giving it back", ", ".join(map(str, ended)))
            self.give_back(ended)
        for lease, job in due:
            try:
                self._ask("POST", f"/v1/vram/leases/{lease}", {"ttl_s": TTL_S})
                renewal = now + TTL_S / 3
            except client.EbbError as why:
                if why.code == "unknown_lease":
                    logging.warning("ebb: lease %s is not known to Ebb any more", lease)
                    with self._lock:
                        self._held.pop(lease, None)
                    continue
                renewal = now + 2.0
            with self._lock:
                if lease in self._held:
                    self._held[lease] = (job, renewal)

    def _keep(self):
        while True:
            time.sleep(LOOK_S)
            with self._lock:
                if not self._held:
                    self._thread = None
                    return
            self.look()


def _running_here():
    from server import PromptServer
    queue = PromptServer.instance.prompt_queue
    current = getattr(queue, "get_current_queue_volatile", queue.get_current_queue)
    return [item[1] for item in current()[0]]


leases = HeldLeases(_running_here)
