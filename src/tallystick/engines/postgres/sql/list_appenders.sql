SELECT pid, application, state, seconds FROM tally.appenders()
