from watchword.cli.main import main

main()
