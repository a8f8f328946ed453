"""What happened to jobs, recorded from outside the control plane, and a model that judges it.

| | |
| --- | --- |
| `record.py` | the facts: submits, the jobs' own lines, states shown, heads lost |
| `client.py` | submits jobs as the docs advise, and records that |
| `watch.py` | reads the jobs' states all the time, asks why they wait, and records the answers |
| `check.py` | the promises, as functions of the facts |
"""
