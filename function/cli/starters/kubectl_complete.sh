#!/bin/sh
# Completes `kubectl modelplane`. Keep it on PATH as kubectl_complete-modelplane.
COMP_WORDS="modelplane $*" COMP_CWORD=$# _MODELPLANE_COMPLETE=bash_complete modelplane | {
  files=:4
  while IFS=, read -r type value; do
    case $type in
      plain) printf '%s\n' "$value" ;;
      file | dir) files=:0 ;;
    esac
  done
  echo $files
}
