# Made of the table of options by tests/readme.
_tollgate() {
  local word=${COMP_WORDS[COMP_CWORD]} option=
  if [[ $word == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 1]} word=
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  case $option in
    '') mapfile -t COMPREPLY < <(compgen -W '--token-server= --listen= --rtp= --rtmp= --join= --multicast= --dscp= --check --health --help --handover= --version --token-file= --hostname= --public-url= --publish-from= --metrics-from= --rtp-to= --proxy-protocol= --forwarded-from= --connections= --connections-per-host= --streams= --tokens= --udp-clients= --head-bytes= --head-headers= --log-lines= --head-time= --source-idle-time= --body-rate= --viewer-stall-time= --keep-alive-time= --wait= --bundle= --hls-segment= --hold= --origin-time= --origin-idle= --buffer= --buffers= --join-back-bytes= --join-back-time= --log= --log-format= --access-log= --close-delimited --cors= --sandbox= --hls= --remux= --icecast --takeover --peer= --origin= --origin-tokens' -- "$word") ;;
    --token-file | --access-log) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    --log) mapfile -t COMPREPLY < <(compgen -W 'error warn info debug' -- "$word") ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$word") ;;
    --sandbox) mapfile -t COMPREPLY < <(compgen -W 'on log off' -- "$word") ;;
    --hls) mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$word") ;;
    --remux) mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$word") ;;
  esac
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace; fi
}
complete -F _tollgate tollgate
