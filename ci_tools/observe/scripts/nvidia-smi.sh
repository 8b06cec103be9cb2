#!/bin/sh
case " $* " in *csv" "* | *csv,nounits" "*) echo header ;; esac
case "$*" in
*compute_cap*) echo {capability} ;;
*query-gpu=count*) echo 1 ;;
*query-gpu=index*) echo 0 ;;
*-L* | *--list-gpus*) echo 'GPU 0: NVIDIA GPU (UUID: GPU-0)' ;;
*) echo '| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06 |'; echo '|   0  NVIDIA GPU |' ;;
esac
