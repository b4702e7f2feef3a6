"""tools/ebb_sidecar/: lends VRAM of Ebb to ComfyUI for the time of its jobs (docs/COMFYUI.md).

One idea a module, from the ground up:
  outcome     how things end: exit codes, and failures that say what happened, what holds now and the way out
  bus         questions to Ebb           lease    memory of a card, kept for as long as it is needed
  comfyui     questions to ComfyUI       listener its news, by websocket          workflow  what is to be run
  gpus        what nvidia-smi and /proc say of GPUs and processes                 cards     which card of Ebb's ComfyUI is on
  job         one job, from the queue to its verdict                              giving_back  /free, until the driver shows it
  memory      what the driver shows of the card   sampling  the most that a job took
  progress    what a person sees                  ending    how a job ended, in words
  handoff     one workflow under a lease: tools/comfy_vram_handoff.py             report    what it was asked for, and what came of it
  peaks       what workflows took        borrower memory for the jobs of one ComfyUI
  watcher     jobs that are seen in the queue                                     gate      a port that holds jobs until the memory is there
  sidecar     all of that for several servers: tools/comfy_sidecar.py             settings  its file
"""
